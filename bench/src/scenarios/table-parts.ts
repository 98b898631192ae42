/** SQL: the tables that hold the rows of a table, which is itself, or its partitions. Values: its schema, its name. */
export const TABLE_PARTS = `
SELECT c.oid AS relid FROM pg_class AS c
 WHERE c.oid = format('%I.%I', $1::text, $2::text)::regclass AND c.relkind = 'r'
 UNION ALL
SELECT i.inhrelid FROM pg_inherits AS i WHERE i.inhparent = format('%I.%I', $1::text, $2::text)::regclass`
