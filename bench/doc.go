// Package bench measures Millrace against the same jobs written by hand. README.md
// says what is measured and what came out.
package bench
