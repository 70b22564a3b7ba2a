package membership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A Survey is what the leases say at one moment, to a process that is not a member. It suspects nobody, so it
// may include members that have just died.
type Survey struct {
	Peers  []Peer   // in the order of their IDs
	Owners []string // by partition; nil without members
}

// Look reads the leases of an application. Without a bucket there are no members.
func Look(ctx context.Context, nc *nats.Conn, name string) (*Survey, error) {
	failed := func(err error) (*Survey, error) { return nil, fmt.Errorf("membership: members of %s: %w", name, err) }
	js, err := jetstream.New(nc)
	if err != nil {
		return failed(err)
	}
	kv, err := js.KeyValue(ctx, "MEMBERS_"+name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return &Survey{}, nil
	}
	if err != nil {
		return failed(err)
	}
	w, err := kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return failed(err)
	}
	defer end(w)
	v := newView("", 0, 0, 0)
	for {
		select {
		case e, ok := <-w.Updates():
			switch {
			case !ok:
				return failed(errors.New("the watch has ended"))
			case e == nil:
				return v.survey(), nil
			case e.Key() == partitionsKey:
				if v.partitions, err = strconv.Atoi(string(e.Value())); err != nil {
					return failed(err)
				}
			default:
				var l lease
				if err := json.Unmarshal(e.Value(), &l); err != nil {
					return failed(fmt.Errorf("not a lease: %s: %w", e.Key(), err))
				}
				v.put(strings.TrimPrefix(e.Key(), leasePrefix), l, e.Revision(), time.Time{})
			}
		case <-ctx.Done():
			return failed(ctx.Err())
		}
	}
}

// survey returns all members of a view.
func (v *view) survey() *Survey {
	s := &Survey{}
	for _, id := range v.others() {
		s.Peers = append(s.Peers, v.peers[id].public(id))
	}
	s.Owners = v.owners(v.others())
	return s
}
