package durable

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// openLog opens the log of the options.
func (c *core) openLog(ctx context.Context) (err error) {
	if c.opts.Log == nil {
		return errNoLog
	}
	partitions := c.layout.total()
	if c.partitionsFromLog {
		partitions = 0
	}
	c.log, err = c.opts.Log.Open(ctx, journal.OpenOptions{
		Name: c.opts.Name, Partitions: partitions, MaxBytes: c.opts.MaxBytes, Existing: c.readOnly, Logger: c.opts.Logger,
	})
	if err != nil {
		return fmt.Errorf("durable: %w", err)
	}
	if n := c.log.Partitions(); n != c.layout.total() && !c.partitionsFromLog {
		return errors.Join(fmt.Errorf("durable: the log has %d partitions, and the flow %d", n, c.layout.total()), c.log.Close())
	}
	var isShared bool
	if c.shared, isShared = c.log.(journal.Shared); c.readOnly {
		return nil
	}
	if c.opts.Client && !isShared {
		return errors.Join(fmt.Errorf("durable: a client owns nothing, so it needs a log that others share, and %s is for one process", c.opts.Log), c.log.Close())
	}
	c.measured = newMeasured(c.log)
	c.log = c.measured
	if !isShared {
		return nil
	}
	c.peers = &peers{core: c}
	if c.opts.Client {
		return nil
	}
	if c.peers.member, err = c.shared.Join(ctx, journal.MemberOptions{ID: c.opts.Member, Lease: c.opts.Lease, Version: c.opts.Version}); err != nil {
		c.log.Close()
		return fmt.Errorf("durable: %w", err)
	}
	return nil
}

// errNoLog is the error for options without a log.
var errNoLog = errors.New(`durable: Options.Log is nil: say where the history is kept, such as disklog.Dir("state") in a folder or natslog.Servers(…) on a cluster`)

// join begins to own partitions: all of them, or those that the members of a cluster assign to this process. In
// the former case it waits until they are restored.
func (c *core) join(owning context.Context) error {
	if c.peers != nil {
		if err := c.peers.listen(); err != nil {
			return fmt.Errorf("durable: %w", err)
		}
	}
	if c.opts.Client {
		return nil
	}
	if c.peers != nil {
		c.owners.Go(func() { c.peers.follow(owning) })
		return nil
	}
	c.agreed = newAgreement(c.log.Partitions())
	first := make(chan error, c.log.Partitions())
	c.owners.Add(1) // so that an owner that fails at once waits for the others to be added
	for p := range c.log.Partitions() {
		c.owners.Go(func() {
			restored := false
			err := c.own(owning, p, func() {
				if !restored {
					restored = true
					first <- nil
				}
			})
			if !restored {
				first <- err
			}
			switch {
			case err == nil:
			case restored:
				c.failed(p, err)
			default: // Start returns the error
				c.ended(err)
			}
		})
	}
	c.owners.Done()
	for range c.log.Partitions() {
		if err := <-first; err != nil {
			return err
		}
	}
	return nil
}
