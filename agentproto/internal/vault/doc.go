// Package vault stores the secrets of a tool server, in a folder or in memory.
//
// A [State] contains all of them. A [File] is checked when it is opened: it contains a sum of its
// records, and a mark beside it names its last change. [Tokens] are the users' tokens, and
// [Entries] are secrets that a history names and must not contain. Both are encrypted with a
// [Keyset].
package vault
