// Package cow is a map whose views can leave the goroutine that writes it.
//
// A [Map] has one writer. A [View] is the map as it was when the view was taken.
// Taking a view costs no copy, and any number of goroutines may read it while the
// writer continues. In return, lookups and writes take logarithmic time, and a
// write copies the few tree nodes on its path that a view still holds.
//
// # Order
//
// Keys whose kind has an order (integers, floats and strings, also as named
// types) are iterated in that order. All other keys are iterated in the order in
// which they were first set; a key that was deleted and set again is at the end.
// Nothing depends on hashes.
//
// # Keys that are not equal to themselves
//
// Among float keys, NaN is one key, before all others. A key of another type that
// holds a NaN is never found again: each Set of it adds an entry. An interface
// holding a value that cannot be compared panics.
package cow
