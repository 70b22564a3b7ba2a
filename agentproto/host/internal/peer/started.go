package peer

import (
	"context"
	"fmt"
	"sync"
)

// Raise has the tool servers started at once that are not up, and waits until they are,
// or have failed.
func (ps *Peers) Raise(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, ps.config.Discovery)
	defer cancel()
	var all sync.WaitGroup
	for _, s := range ps.All {
		if s.Command != nil {
			all.Go(func() { _ = s.Command.Up(ctx) }) // who asks for the manifest is told
		}
	}
	all.Wait()
}

// Stop ends the tool servers that the runtime runs itself. When ctx ends they are killed.
func (ps *Peers) Stop(ctx context.Context) {
	var all sync.WaitGroup
	for _, s := range ps.All {
		if s.Command != nil {
			all.Go(func() { s.Command.Stop(ctx) })
		}
	}
	all.Wait()
}

// Expect has a tool server that is started by the runtime started soon if it has ended.
func (s *Server) Expect() {
	if s != nil && s.Command != nil {
		s.Command.Wake()
	}
}

// Explain adds to an error about a tool server that it is not there.
func (s *Server) Explain(err error) error {
	if s.Command != nil {
		if why := s.Command.Err(); why != nil {
			return fmt.Errorf("%w: its command %w", err, why)
		}
	}
	return err
}
