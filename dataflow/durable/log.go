package durable

import (
	"context"
	"fmt"
	"sync"

	"github.com/millrace/millrace/internal/journal/jetstream"
	"github.com/millrace/millrace/internal/membership"
)

// openLog opens the log that the options say.
func (c *core) openLog(ctx context.Context) error {
	if c.opts.log != nil {
		c.log = c.opts.log
		return nil
	}
	o := jetstream.Options{
		Name: c.opts.Name, Partitions: c.opts.Partitions,
		AssumeDurable: c.opts.AssumeDurable, MaxBytes: c.opts.MaxBytes, Logger: c.opts.Logger,
	}
	if len(c.opts.Servers) == 0 {
		o.Dir = c.opts.Dir
	} else {
		o.Servers, o.Credentials = c.opts.Servers, c.opts.Credentials
		o.Replicas = c.opts.Replicas
		if o.Replicas == 1 {
			o.Replicas = jetstream.Unreplicated
		}
	}
	log, err := jetstream.Open(ctx, o)
	if err != nil {
		return fmt.Errorf("durable: %w", err)
	}
	c.log = log
	if len(c.opts.Servers) == 0 || c.looking {
		return nil
	}
	member, err := membership.Join(ctx, log.Conn(), membership.Options{
		Name: c.opts.Name, ID: c.opts.Member, Partitions: c.opts.Partitions,
		Lease: c.opts.Lease, Replicas: c.opts.Replicas, Logger: c.opts.Logger,
	})
	if err != nil {
		log.Close()
		return fmt.Errorf("durable: %w", err)
	}
	c.peers = &peers{core: c, conn: log.Conn(), member: member}
	return nil
}

// join begins to own partitions: all of them, or those that the members of a cluster
// leave to this one. Alone it waits until they are restored.
func (c *core) join(owning context.Context) error {
	if c.peers != nil {
		c.owners.Go(func() { c.peers.follow(owning) })
		return nil
	}
	first := make(chan error, c.log.Partitions())
	for p := range c.log.Partitions() {
		c.owners.Go(func() {
			var once sync.Once
			err := c.own(owning, p, func() { once.Do(func() { first <- nil }) })
			once.Do(func() { first <- err })
			if err != nil {
				c.ended(err)
			}
		})
	}
	for range c.log.Partitions() {
		if err := <-first; err != nil {
			return err
		}
	}
	return nil
}
