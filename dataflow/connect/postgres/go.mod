module github.com/millrace/millrace/dataflow/connect/postgres

go 1.26.0

require github.com/jackc/pgx/v5 v5.12.0

require (
	github.com/fxamacker/cbor/v2 v2.9.6 // indirect
	github.com/google/btree v1.1.3 // indirect
	github.com/x448/float16 v0.8.4 // indirect
	golang.org/x/exp v0.0.0-20260908205506-85c1c2202aba // indirect
	golang.org/x/net v0.61.0 // indirect
)

require (
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/millrace/millrace v0.0.0
	golang.org/x/text v0.43.0 // indirect
)

replace github.com/millrace/millrace => ../../../
