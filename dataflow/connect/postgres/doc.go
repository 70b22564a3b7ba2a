// Package postgres has sinks that write to PostgreSQL. It is a module of its own.
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
