package display

import (
	"bytes"
	"container/list"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/millrace/millrace/agentproto"
)

// Bounds limit the views that are remembered: see host.Bounds.
type Bounds struct {
	Views, Bytes int // of one thread
	Threads      int
}

// views holds the latest views of the most recently updated threads.
type views struct {
	mu      sync.Mutex
	bounds  Bounds
	threads map[string]*list.Element
	order   list.List // of *threadViews, the most recently updated in front
}

// threadViews are the views of one thread.
type threadViews struct {
	thread string
	latest map[string]*agentproto.ViewUpdate // by type
	bytes  int
}

func newViews(b Bounds) *views { return &views{bounds: b, threads: map[string]*list.Element{}} }

// ErrLater is returned for a view that cannot be shown now.
var ErrLater = errors.New("host: the surface has too much to show")

// put stores a view in place of the one of its type, if show accepts it. An error other than [ErrLater] says, in words for the
// sender, which bound the view exceeds.
func (v *views) put(u *agentproto.ViewUpdate, show func() bool) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	t := &threadViews{thread: u.GroupID, latest: map[string]*agentproto.ViewUpdate{}}
	if e := v.threads[u.GroupID]; e != nil {
		t = e.Value.(*threadViews)
	}
	size := t.bytes - viewBytes(t.latest[u.ViewType])
	cleared := Cleared(u)
	if !cleared {
		if t.latest[u.ViewType] == nil && len(t.latest) >= v.bounds.Views {
			return fmt.Errorf("the thread has %d views already", len(t.latest))
		}
		if size += viewBytes(u); size > v.bounds.Bytes {
			return fmt.Errorf("the views of the thread would have more than %d bytes", v.bounds.Bytes)
		}
	}
	if !show() {
		return ErrLater
	}
	if t.bytes = size; cleared {
		delete(t.latest, u.ViewType)
	} else {
		t.latest[u.ViewType] = u
	}
	v.keep(t)
	return nil
}

// keep makes a thread the most recently updated one.
func (v *views) keep(t *threadViews) {
	if e := v.threads[t.thread]; e != nil {
		v.order.Remove(e)
		delete(v.threads, t.thread)
	}
	if len(t.latest) == 0 {
		return
	}
	v.threads[t.thread] = v.order.PushFront(t)
	if v.order.Len() > v.bounds.Threads {
		oldest := v.order.Back()
		delete(v.threads, oldest.Value.(*threadViews).thread)
		v.order.Remove(oldest)
	}
}

// viewBytes returns the size that counts for a view; nil has none.
func viewBytes(u *agentproto.ViewUpdate) int {
	if u == nil {
		return 0
	}
	return len(u.ViewType) + len(u.Content)
}

// Cleared reports whether a view is empty, which clears it.
func Cleared(u *agentproto.ViewUpdate) bool {
	inside, ok := bytes.CutPrefix(bytes.TrimSpace(u.Content), []byte("{"))
	return ok && string(bytes.TrimSpace(inside)) == "}"
}

// forget drops the views of a thread.
func (v *views) forget(thread string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e := v.threads[thread]; e != nil {
		v.order.Remove(e)
		delete(v.threads, thread)
	}
}

// of returns the latest views of a thread, one for each type, in the order of the types.
func (v *views) of(groupID string) []*agentproto.ViewUpdate {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.threads[groupID]
	if e == nil {
		return nil
	}
	latest := e.Value.(*threadViews).latest
	found := make([]*agentproto.ViewUpdate, 0, len(latest))
	for _, kind := range slices.Sorted(maps.Keys(latest)) {
		found = append(found, latest[kind])
	}
	return found
}
