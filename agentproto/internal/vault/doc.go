// Package vault is a file for secrets, and what is in transit to it.
//
// A [File] checks itself when it is opened: every record has its share in a sum, and a mark beside
// the file says which change was the last one. [Entries] are secrets that a history names and must
// not have.
package vault
