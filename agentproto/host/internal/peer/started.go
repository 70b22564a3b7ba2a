package peer

import (
	"context"
	"fmt"
	"sync"
)

// Raise starts the tool servers that are not up, and waits until they are up or have failed.
func (ps *Peers) Raise(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, ps.config.Discovery)
	defer cancel()
	var all sync.WaitGroup
	for _, s := range ps.All {
		if s.Command != nil {
			all.Go(func() { _ = s.Command.Up(ctx) }) // fetching the manifest reports the error
		}
	}
	all.Wait()
}

// Stop ends the tool servers that the runtime runs itself. It kills them when ctx ends.
func (ps *Peers) Stop(ctx context.Context) {
	var all sync.WaitGroup
	for _, s := range ps.All {
		if s.Command != nil {
			all.Go(func() { s.Command.Stop(ctx) })
		}
	}
	all.Wait()
}

// Expect starts a tool server soon if the runtime runs it and it has exited.
func (s *Server) Expect() {
	if s != nil && s.Command != nil {
		s.Command.Wake()
	}
}

// Explain adds to an error about a tool server that its command is not up.
func (s *Server) Explain(err error) error {
	if s.Command != nil {
		if why := s.Command.Err(); why != nil {
			return fmt.Errorf("%w: its command %w", err, why)
		}
	}
	return err
}
