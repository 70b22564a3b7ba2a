// Package vault keeps what is secret of a tool server: in a folder, or in memory.
//
// A [State] is all of it. A [File] checks itself when it is opened: every record has its share in a
// sum, and a mark beside the file says which change was the last one. [Tokens] are those of users,
// [Entries] are secrets that a history names and must not have. Both are encrypted with a [Keyset].
package vault
