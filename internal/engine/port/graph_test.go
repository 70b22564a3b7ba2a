package port

import (
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/live"
)

// newTestGraph returns a graph like those of package dataflow.
func newTestGraph() *engine.Graph {
	return live.Drive(engine.New(engine.Settings{Queue: 64, Buffer: 1 << 20, Wrap: func(p *engine.Panic) error { return p }}))
}
