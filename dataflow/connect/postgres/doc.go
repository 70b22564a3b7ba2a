// Package postgres reads the changes of a PostgreSQL database, and writes to one. It is a module of its own.
//
// # Changes of tables
//
// A [Slot] of logical replication is a source with one split: its changes come in the order of commits, each with the position of
// its transaction and its number there, so none is lost and none comes twice.
//
//	CREATE PUBLICATION shop FOR TABLE orders, customers;
//
//	slot := postgres.Slot{Database: db, Name: "shop", Publication: "shop", Snapshot: true}
//	changes := connect.Whole(postgres.Changes(slot))
//
// [Decoded] gives rows as structs, by key, and [Transactions] all changes of a transaction together. The server keeps its log until the flow has what is in it, so a slot that nobody reads
// fills the disk; max_slot_wal_keep_size bounds that, and then the slot is lost, which is a [connect.ErrGap].
//
// # Messages of transactions
//
// A program that wants to tell a flow something together with what it writes needs no table for that: the message of
//
//	select pg_logical_emit_message(true, 'orders', $1)
//
// comes as a [Change] with the Op [Message], if and when the transaction commits. A table of messages may be published as any other
// table. It must not be polled by its numbers: of two transactions, the one that took the later number may commit first.
//
// # Sinks
//
// Each lane has one connection. [Upsert], [Append] and [Exec] keep the number of the lane's last element in a table beside the
// data, so each element has its effect once, whatever is killed or cut in between:
//
//	totals := postgres.Upsert(postgres.Database{DSN: dsn}, "totals",
//		postgres.Key("customer", func(t Total) string { return t.Customer }),
//		postgres.Column("sum", func(t Total) int64 { return t.Sum }))
//
// [UpsertEntries] writes entries whose values are final, which needs no number.
package postgres
