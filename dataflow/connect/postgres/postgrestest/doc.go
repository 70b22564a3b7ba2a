// Package postgrestest starts PostgreSQL servers for tests, on free ports of the loopback interface, from the programs of an
// installation: those in the path, or in the folders where distributions keep them.
//
// Tests are skipped where there is no PostgreSQL, unless MILLRACE_REAL is "require".
package postgrestest
