package dataflow

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/seal"
)

// SealOptional is for this module's operators; see package internal/seal.
func SealOptional[T any, L Location, B bounds.Singleton](_ seal.Key, c *engine.Cell[T]) (_ Optional[T, L, B]) {
	return Optional[T, L, B]{cell: c}
}

// Unseal is for this module's operators; see package internal/seal.
func (o Optional[T, L, B]) Unseal(seal.Key) *engine.Cell[T] { return made(o.cell) }

// NewConstant is for package singleton; see package internal/seal.
func NewConstant[T any, L Location](_ seal.Key, at L, op string, value T) Singleton[T, L, bounds.Bounded] {
	p := at.place().check(op)
	engine.NewOp(p.site, op, "")
	return Singleton[T, L, bounds.Bounded]{cell: engine.ConstantCell(p.site, p.region, value)}
}
