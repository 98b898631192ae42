/**
 * Tells databases apart, of one cluster and of several. A streaming replica is a copy of its cluster, with the same identity,
 * and its databases keep their ids.
 */
export const DATABASE = `
         (SELECT (s.system_identifier::text || '/') || d.oid::text FROM pg_control_system() AS s CROSS JOIN pg_database AS d
           WHERE d.datname = current_database())`
