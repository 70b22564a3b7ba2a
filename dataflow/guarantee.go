package dataflow

// TotalOrder marks a stream whose elements come in one fixed order. For a keyed
// stream the order holds within each key.
type TotalOrder struct{}

// NoOrder marks a stream whose elements may come in any order.
type NoOrder struct{}

// Order is the set of order markers.
type Order interface {
	TotalOrder | NoOrder
}

// Ordered is satisfied only by [TotalOrder]. An operator that requires it would give a
// different answer for a different order.
//
// A stream that is [NoOrder] can be folded with an operation for which order does not
// matter, such as counting. If any order will do, it can be passed through
// [AssumeOrder].
type Ordered interface {
	TotalOrder
}

// ExactlyOnce marks a stream in which no element is repeated by a retry.
type ExactlyOnce struct{}

// AtLeastOnce marks a stream in which a retry may repeat an element.
type AtLeastOnce struct{}

// Retries is the set of retry markers.
type Retries interface {
	ExactlyOnce | AtLeastOnce
}

// NoRetries is satisfied only by [ExactlyOnce]. An operator that requires it would give
// a different answer if an element were repeated. A stream that is [AtLeastOnce] can be
// passed through [AssumeOnce] if repeats do no harm.
type NoRetries interface {
	ExactlyOnce
}
