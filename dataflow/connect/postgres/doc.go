// Package postgres reads the changes of a PostgreSQL database, and writes to one. It is a separate module. A [Slot] is what
// is read, and [Upsert], [Append] and [Exec] are the usual sinks.
//
// # Changes of tables
//
// A [Slot] of logical replication is a source with one split. Its changes come in the order of commits, each with the position of
// its transaction and its number there. So none is lost and none comes twice.
//
//	CREATE PUBLICATION shop FOR TABLE orders, customers;
//
//	slot := postgres.Slot{Database: db, Name: "shop", Publication: "shop", Snapshot: true}
//	changes := connect.Whole(postgres.Changes(slot))
//
// [Decoded] returns rows as structs, by key, and [Transactions] returns all changes of a transaction together.
//
// The server keeps its log until the flow has the content, so a slot that nobody reads fills the disk. max_slot_wal_keep_size
// limits that. Beyond the limit the slot is lost, which is a [connect.ErrGap].
//
// # Messages of transactions
//
// A program can tell a flow something together with what it writes, without a table. The message of
//
//	select pg_logical_emit_message(true, 'orders', $1)
//
// comes as a [Change] with the Op [Message] if and when the transaction commits. A table of messages may also be published, like
// any other table. It must not be polled by its numbers: of two transactions, the one with the later number may commit first.
//
// # Sinks
//
// Each lane has one connection. [Upsert], [Append] and [Exec] keep the number of the lane's last element in a table beside the
// data. So each element has its effect once, whatever is killed or disconnected in between:
//
//	totals := postgres.Upsert(postgres.Database{DSN: dsn}, "totals",
//		postgres.Key("customer", func(t Total) string { return t.Customer }),
//		postgres.Column("sum", func(t Total) int64 { return t.Sum }))
//
// [UpsertEntries] writes entries whose values are final, which needs no number.
package postgres
