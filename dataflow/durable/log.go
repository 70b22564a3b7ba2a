package durable

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/millrace/millrace/internal/journal/jetstream"
	"github.com/millrace/millrace/internal/membership"
)

// openLog opens the log that the options say.
func (c *core) openLog(ctx context.Context) error {
	if log := c.opts.log(); log != nil {
		if n := log.Partitions(); n != c.layout.total() {
			return fmt.Errorf("durable: the log has %d partitions, and the flow %d", n, c.layout.total())
		}
		c.log = log
		return nil
	}
	if c.opts.Client && len(c.opts.Servers) == 0 {
		return errors.New("durable: a client owns nothing, so it needs Servers whose partitions others own")
	}
	o := jetstream.Options{
		Name: c.opts.Name, Partitions: c.layout.total(),
		AssumeDurable: c.opts.AssumeDurable, MaxBytes: c.opts.MaxBytes, Existing: c.looking, Logger: c.opts.Logger,
	}
	if len(c.opts.Servers) == 0 {
		o.Dir = c.opts.Dir
	} else {
		o.Servers, o.Credentials = c.opts.Servers, c.opts.Credentials
		o.SystemServer, o.SystemCredentials = c.opts.SystemServer, c.opts.SystemCredentials
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
	c.peers = &peers{core: c, conn: log.Conn()}
	if c.opts.Client {
		return nil
	}
	if c.peers.member, err = c.becomeMember(ctx, log.Conn()); err != nil {
		log.Close()
		return fmt.Errorf("durable: %w", err)
	}
	return nil
}

// becomeMember joins the others. Like the log it waits for servers that elect a leader,
// for as long as ctx lasts, but not for what waiting cannot change.
func (c *core) becomeMember(ctx context.Context, conn *nats.Conn) (*membership.Member, error) {
	for within := joinWithin; ; within = min(2*within, joinWithinMost) {
		attempt, cancel := context.WithTimeout(ctx, within)
		member, err := membership.Join(attempt, conn, membership.Options{
			Name: c.opts.Name, ID: c.opts.Member, Partitions: c.layout.total(),
			Lease: c.opts.Lease, Replicas: c.opts.Replicas, Logger: c.opts.Logger,
		})
		cancel()
		if err == nil || errors.Is(err, membership.ErrOptions) || errors.Is(err, membership.ErrBucket) ||
			errors.Is(err, membership.ErrSuperseded) || errors.Is(err, membership.ErrClosed) {
			return member, err
		}
		c.opts.Logger.Warn("could not join the other processes, trying again", "error", err)
		select {
		case <-time.After(joinAgain):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// joinWithin is how long the first attempt to join may take: servers that have no leader,
// or make the same stream for several processes, leave requests without an answer.
// joinAgain is how long to wait after one that failed.
const (
	joinWithin     = 1500 * time.Millisecond
	joinWithinMost = 12 * time.Second
	joinAgain      = 100 * time.Millisecond
)

// join begins to own partitions: all of them, or those that the members of a cluster
// leave to this one. Alone it waits until they are restored.
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
	first := make(chan error, c.log.Partitions())
	c.owners.Add(1) // so that an owner that fails at once waits for those that are not there yet
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
	c.owners.Done()
	for range c.log.Partitions() {
		if err := <-first; err != nil {
			return err
		}
	}
	return nil
}
