package natslog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/millrace/millrace/dataflow/durable/internal/membership"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A sharedLog is a log on servers that several processes have open. They divide its partitions
// among them. Questions between them go through the servers and are not stored.
type sharedLog struct{ *Log }

var _ journal.Surveyed = (*sharedLog)(nil)

// joinWithin is the timeout of the first attempt to join. It is short because servers that have no
// leader, or that create the same stream for several processes, do not answer requests. The timeout
// doubles up to joinWithinMost. joinAgain is the pause after a failed attempt.
const (
	joinWithin     = 1500 * time.Millisecond
	joinWithinMost = 12 * time.Second
	joinAgain      = 100 * time.Millisecond
)

// Join makes this process a member. It waits for servers that elect a leader for as long as ctx
// lasts. It returns an error at once if waiting cannot help.
func (l *sharedLog) Join(ctx context.Context, o journal.MemberOptions) (journal.Member, error) {
	for within := joinWithin; ; within = min(2*within, joinWithinMost) {
		attempt, cancel := context.WithTimeout(ctx, within)
		m, err := membership.Join(attempt, l.nc, membership.Options{
			Name: l.opts.Name, ID: o.ID, Partitions: l.partitions,
			Lease: o.Lease, Replicas: l.opts.Replicas, Logger: l.opts.Logger, Info: []byte(o.Version),
		})
		cancel()
		switch {
		case err == nil:
			return member{m}, nil
		case errors.Is(err, membership.ErrOptions), errors.Is(err, membership.ErrBucket),
			errors.Is(err, membership.ErrSuperseded), errors.Is(err, membership.ErrClosed):
			return nil, err
		}
		l.logger.Warn("could not join the other processes, trying again", "error", err)
		select {
		case <-time.After(joinAgain):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// A member adapts a [membership.Member] to [journal.Member].
type member struct{ *membership.Member }

func (m member) Next(ctx context.Context) ([]int, error) {
	a, err := m.Member.Next(ctx)
	return a.Owned, err
}

var (
	_ journal.Roster  = member{}
	_ journal.Refuser = member{}
)

// Members returns the IDs of the live members.
func (m member) Members() []string {
	peers := m.Member.Members()
	ids := make([]string, len(peers))
	for i := range peers {
		ids[i] = peers[i].ID
	}
	return ids
}

// Survey returns the members according to their leases.
func (l *sharedLog) Survey(ctx context.Context) ([]journal.MemberInfo, error) {
	seen, err := membership.Look(ctx, l.nc, l.opts.Name)
	if err != nil {
		return nil, err
	}
	all := make([]journal.MemberInfo, len(seen.Peers))
	for i, p := range seen.Peers {
		all[i] = journal.MemberInfo{ID: p.ID, Version: string(p.Info), Joined: p.Started, Why: p.Why, Refuses: p.Refuses(l.partitions)}
		for partition, id := range seen.Owners {
			if id == p.ID {
				all[i].Owns = append(all[i].Owns, partition)
			}
		}
	}
	return all, nil
}

func (l *sharedLog) owner(partition int) string {
	return fmt.Sprintf("%s.owner.%d", l.opts.Name, partition)
}

func (l *sharedLog) announcements() string { return l.opts.Name + ".said" }

// Ask asks the owner of a partition.
func (l *sharedLog) Ask(ctx context.Context, partition int, question []byte) ([]byte, error) {
	m, err := l.nc.RequestWithContext(ctx, l.owner(partition), question)
	switch {
	case errors.Is(err, nats.ErrConnectionClosed):
		return nil, journal.ErrClosed
	case err != nil:
		return nil, fmt.Errorf("natslog: nobody answers for partition %d: %w", partition, err)
	}
	return m.Data, nil
}

// Answer answers the questions to the owner of a partition.
func (l *sharedLog) Answer(partition int, answer func([]byte) []byte) (stop func(), err error) {
	sub, err := l.nc.Subscribe(l.owner(partition), func(m *nats.Msg) {
		go func() {
			_ = m.Respond(answer(m.Data)) // without an answer, the other process asks again
		}()
	})
	if err != nil {
		return nil, fmt.Errorf("natslog: answers for partition %d: %w", partition, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil // fails only if the connection is closed
}

// Announce sends a message about a partition to all processes.
func (l *sharedLog) Announce(partition int, message []byte) error {
	return l.nc.Publish(l.announcements(), append(binary.AppendUvarint(nil, uint64(partition)), message...))
}

// Announced registers a function for the announcements.
func (l *sharedLog) Announced(heard func(partition int, message []byte)) error {
	_, err := l.nc.Subscribe(l.announcements(), func(m *nats.Msg) {
		if p, n := binary.Uvarint(m.Data); n > 0 && p < uint64(l.partitions) {
			heard(int(p), m.Data[n:])
		}
	})
	return err
}
