// Package bench compares Millrace with the same jobs written by hand. README.md
// describes the measurements and their results.
package bench
