package durable

import (
	"errors"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// refusing returns the member that can give a partition back because the program of this process cannot go on
// from its history, as the error of the restore says. It returns nil if the error has another cause, which
// other processes would meet as well, or if no process shares the flow.
func (c *core) refusing(err error) journal.Refuser {
	if c.peers == nil || !errors.Is(err, ErrChanged) && !errors.Is(err, ErrDiverged) {
		return nil
	}
	r, _ := c.peers.member.(journal.Refuser)
	return r
}

// refuse gives a partition back if another process may be able to run it, and ends the term. Otherwise it
// returns false: the term goes on, with the partition stopped, until another process can run it.
func (ps *peers) refuse(t *term, p int, err error) bool {
	r := ps.refusing(err)
	if r == nil {
		return false
	}
	if t.ctx.Err() != nil { // another process owns it already
		return true
	}
	pg := ps.gateway.partitions[p]
	pg.mu.Lock()
	known := pg.gaveBack != nil && pg.gaveBack.Error() == err.Error()
	pg.gaveBack = err
	pg.mu.Unlock()
	if !known {
		ps.opts.Logger.Warn("a partition is left to other processes, since this program cannot run it", "partition", p, "version", ps.opts.Version, "error", err)
	}
	ps.turning.Lock()
	defer ps.turning.Unlock()
	if r.Refuse(p, errors.Is(err, ErrChanged) && !errors.As(err, new(waitsError)), err.Error()) {
		return false
	}
	t.end()
	return true
}

// accept notes that this process runs a partition, which it may have refused before.
func (ps *peers) accept(p int) {
	pg := ps.gateway.partitions[p]
	pg.mu.Lock()
	refused := pg.gaveBack != nil
	pg.gaveBack = nil
	pg.mu.Unlock()
	if r, ok := ps.member.(journal.Refuser); ok && refused {
		r.Accept(p)
	}
}
