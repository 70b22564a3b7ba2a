// Package seal holds the key with which this module's own packages construct and
// open live collections.
//
// A collection's bound, order and retries are promises. If any package could wrap
// a node in any type, the promises would be worth nothing; if none could, every
// operator would have to live in package dataflow. The exported functions that
// wrap and unwrap therefore take a [Key], and only this module can name one.
package seal

// A Key proves that the caller is part of this module.
type Key struct{ _ [0]func() }
