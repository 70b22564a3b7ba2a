package dataflow_test

import "github.com/millrace/millrace/bounds"

type (
	bounded   = bounds.Bounded
	unbounded = bounds.Unbounded
)
