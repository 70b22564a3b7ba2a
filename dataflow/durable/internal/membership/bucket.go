package membership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	leasePrefix   = "m."             // prefix of the keys of leases
	partitionsKey = "partitions"     // key of the number of partitions
	markerTTL     = 30 * time.Second // of the marker that a deleted lease leaves
	attempts      = 20               // of an operation that can fail because another member was faster
)

// bucket opens the bucket of leases, creates it if it does not exist, and checks that it fits the options. A
// member repeats this whenever it connects, since a server may come back empty.
func (m *Member) bucket(ctx context.Context) (jetstream.KeyValue, error) {
	name := "MEMBERS_" + m.options.Name
	kv, err := m.js.KeyValue(ctx, name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		replicas := m.options.Replicas
		if replicas == 0 {
			replicas = 1
			if m.nc.ConnectedClusterName() != "" {
				replicas = 3
			}
		}
		kv, err = m.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket:         name,
			Description:    "who is a member of " + m.options.Name,
			LimitMarkerTTL: markerTTL,
			Replicas:       replicas,
			Storage:        jetstream.FileStorage,
		})
		if errors.Is(err, jetstream.ErrBucketExists) { // another member was faster, with other options
			kv, err = m.js.KeyValue(ctx, name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("membership: bucket %s: %w", name, err)
	}
	status, err := kv.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("membership: bucket %s: %w", name, err)
	}
	if status.LimitMarkerTTL() == 0 {
		return nil, fmt.Errorf("%w: %s has no time to live for its keys", ErrBucket, name)
	}
	if has := status.Config().Replicas; m.options.Replicas != 0 && m.options.Replicas != has {
		return nil, fmt.Errorf("%w: %s has %d replicas, not %d", ErrBucket, name, has, m.options.Replicas)
	}
	return kv, m.checkPartitions(ctx, kv)
}

// checkPartitions writes the number of partitions, or compares it with the number that the first member wrote.
func (m *Member) checkPartitions(ctx context.Context, kv jetstream.KeyValue) error {
	want := strconv.Itoa(m.options.Partitions)
	return again(ctx, func() (bool, error) {
		e, err := kv.Get(ctx, partitionsKey)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			_, err = kv.Create(ctx, partitionsKey, []byte(want))
			// A replica that does not have the key yet may have answered.
			return errors.Is(err, jetstream.ErrKeyExists), err
		}
		if err == nil && string(e.Value()) != want {
			err = fmt.Errorf("%w: %s has %s partitions, not %s", ErrBucket, kv.Bucket(), e.Value(), want)
		}
		return false, err
	})
}

// again calls f, with pauses, until it wants no more or attempts calls were made.
func again(ctx context.Context, f func() (more bool, err error)) error {
	pause := time.NewTicker(50 * time.Millisecond)
	defer pause.Stop()
	for i := 1; ; i++ {
		more, err := f()
		if !more || i == attempts {
			return err
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return fmt.Errorf("%w, after: %w", ctx.Err(), err)
		}
	}
}

// register writes the first lease, with a later start than any lease that has this ID. It returns when the
// member started and when the lease was sent.
func (m *Member) register(ctx context.Context, kv jetstream.KeyValue) (started int64, sent time.Time, err error) {
	key := leasePrefix + m.options.ID
	err = again(ctx, func() (bool, error) {
		var revision uint64
		started = time.Now().UnixNano()
		e, err := kv.Get(ctx, key)
		switch {
		case err == nil:
			var before lease
			if json.Unmarshal(e.Value(), &before) == nil {
				started = max(started, before.Started+1)
			}
			revision = e.Revision()
		case !errors.Is(err, jetstream.ErrKeyNotFound):
			return false, err
		}
		value, err := json.Marshal(lease{Started: started, Renewal: 1, Info: m.options.Info})
		if err != nil {
			return false, err
		}
		sent = time.Now()
		if revision == 0 {
			_, err = kv.Create(ctx, key, value, jetstream.KeyTTL(m.options.Lease))
			return errors.Is(err, jetstream.ErrKeyExists), err
		}
		_, err = m.js.Publish(ctx, m.subject(), value,
			jetstream.WithMsgTTL(m.options.Lease), jetstream.WithExpectLastSequencePerSubject(revision))
		return refused(err), err
	})
	if err != nil {
		err = fmt.Errorf("membership: first lease: %w", err)
	}
	return started, sent, err
}

// refused reports whether a write came too late. Replicated streams have their own error code for it.
func refused(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) &&
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// subject is where the lease is published. It is published as a message because the key-value API cannot renew
// the time to live of a key.
func (m *Member) subject() string {
	return "$KV.MEMBERS_" + m.options.Name + "." + leasePrefix + m.options.ID
}

// follow watches the leases until ctx ends. It begins a new watch when cancelWatch is called: the client
// notices a broken watch only after ten seconds, and a lease is shorter.
func (m *Member) follow(ctx context.Context) {
	limit, failing := m.patience(), false
	for ctx.Err() == nil {
		one, cancel := context.WithCancel(ctx)
		m.mu.Lock()
		m.cancelWatch = cancel
		m.mu.Unlock()
		started, err := m.watch(one, limit)
		switch {
		case started:
			limit, failing = m.patience(), false
		case errors.Is(err, errSlow):
			limit = min(2*limit, 10*time.Second)
		}
		if one.Err() == nil { // the watch failed by itself
			if !failing {
				m.options.Logger.Warn("membership: watch", "self", m.options.ID, "error", err)
			}
			failing = true
			pause := time.NewTimer(m.retry())
			select {
			case <-pause.C:
			case <-one.Done():
			}
			pause.Stop()
		}
		cancel()
	}
}

// errSlow says that a watch did not start in time.
var errSlow = errors.New("membership: no answer in time")

// watch passes leases to the loop until ctx ends, provided that the watch starts within limit.
func (m *Member) watch(ctx context.Context, limit time.Duration) (started bool, err error) {
	// The context given to Watch ends the watch, so it cannot have a deadline.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(limit, func() { cancel(errSlow) })
	defer late.Stop()
	failed := func(err error) (bool, error) {
		if errors.Is(context.Cause(ctx), errSlow) {
			err = fmt.Errorf("%w: %w", errSlow, err)
		}
		return false, err
	}
	kv, err := m.bucket(ctx)
	if err != nil {
		return failed(err)
	}
	w, err := kv.Watch(ctx, leasePrefix+"*")
	if err != nil {
		return failed(err)
	}
	late.Stop()
	defer end(w)
	m.do(func(v *view, _ time.Time) { v.begin() })
	for {
		select {
		case e, ok := <-w.Updates():
			if !ok {
				return true, errors.New("membership: the watch has ended")
			}
			m.do(m.seen(e))
		case <-ctx.Done():
			return true, ctx.Err()
		}
	}
}

// end ends a watch. The goroutine of the client may be waiting to pass on one more update, and ends after that. It does
// not always close the channel: if the context of the watch ends at the moment at which the watch begins, it forgets
// to. So end takes what there is and does not wait for more.
func end(w jetstream.KeyWatcher) {
	_ = w.Stop() // fails only if it has ended already
	for {
		select {
		case _, ok := <-w.Updates():
			if !ok {
				return
			}
		default:
			return
		}
	}
}

// seen returns what an entry of the watch means for the view. A nil entry ends the list of existing leases.
func (m *Member) seen(e jetstream.KeyValueEntry) func(*view, time.Time) {
	if e == nil {
		return func(v *view, _ time.Time) { v.shown() }
	}
	id := strings.TrimPrefix(e.Key(), leasePrefix)
	if e.Operation() != jetstream.KeyValuePut {
		return func(v *view, now time.Time) { v.gone(id, now) }
	}
	var l lease
	if err := json.Unmarshal(e.Value(), &l); err != nil {
		m.options.Logger.Warn("membership: not a lease", "key", e.Key(), "error", err)
		return func(*view, time.Time) {}
	}
	return func(v *view, now time.Time) {
		if v.put(id, l, e.Revision(), now) {
			m.counters.returns.Add(1)
			m.options.Logger.Info("membership: back", "self", m.options.ID, "member", id)
		}
	}
}
