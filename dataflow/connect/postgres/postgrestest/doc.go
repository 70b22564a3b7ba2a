// Package postgrestest starts PostgreSQL servers for tests, on free ports of the loopback interface. It uses an installed
// PostgreSQL: the programs in the path, or in the folders where distributions keep them.
//
// If there is no PostgreSQL, tests are skipped, unless MILLRACE_REAL is "require".
package postgrestest
