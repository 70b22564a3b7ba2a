// Package cow is a map whose views can leave the goroutine that writes it.
//
// A [Map] has one writer. A [View] is the map as it stood when it was taken: to
// take it costs no copy, and it may be read by any number of goroutines while
// the writer goes on. What is paid for this is that lookups and writes take
// logarithmic time and that a write copies the few tree nodes on its path which
// a view still holds.
//
// # Order
//
// Keys whose kind has an order (integers, floats and strings, also under names
// of their own) are iterated in that order. All other keys are iterated in the
// order in which they were first set; a key deleted and set again is at the end.
// Nothing depends on hashes.
//
// # Keys that are not equal to themselves
//
// Among float keys, NaN is one key, before all others. A key of another type that
// holds a NaN is never found again: each Set of it adds an entry. An interface
// holding a value that cannot be compared panics.
package cow
