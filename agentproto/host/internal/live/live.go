// Package live knows what goes on in threads at this moment and is not kept: what models write, and
// which views have changed. A [Hub] is told so, and wakes those who watch a thread.
//
// There is no queue for each watcher. A round that is under way has one text, of which each watcher
// remembers how far it has come, so a watcher that is slow gets larger parts, and one that comes in
// the middle gets what was written before.
package live

import (
	"maps"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto/conversation"
)

// Bounds of what is remembered of a thread. Beyond the first, the reply is seen when it is complete;
// beyond the second, views that were cleared are forgotten.
const (
	maxBytes = 1 << 20
	maxViews = 256
)

// A Hub is told what goes on. Its methods may be used concurrently; the zero value is ready to use.
type Hub struct {
	mu      sync.Mutex
	threads map[string]*thread
}

// A thread is one that is being watched, or whose model is being asked.
type thread struct {
	watchers int
	changed  chan struct{} // closed at the next change
	version  uint64        // of everything
	round    *round        // nil if nothing was written of late
	views    map[string]view
}

// A round is what a model has written in one attempt.
type round struct {
	at    conversation.Writing // its Stage is that of the round
	size  int
	text  []byte
	calls []*call
}

type call struct {
	id, name string
	args     []byte
}

type view struct {
	version uint64
	content jsontext.Value
}

// entry returns a thread, made if need be. It is called with mu held.
func (h *Hub) entry(id string) *thread {
	if h.threads == nil {
		h.threads = map[string]*thread{}
	}
	t := h.threads[id]
	if t == nil {
		t = &thread{changed: make(chan struct{}), views: map[string]view{}}
		h.threads[id] = t
	}
	return t
}

// change wakes the watchers. It is called with mu held.
func (t *thread) change() {
	t.version++
	if t.watchers > 0 {
		close(t.changed)
		t.changed = make(chan struct{})
	}
}

// tidy forgets a thread of which nothing has to be remembered. It is called with mu held.
func (h *Hub) tidy(id string, t *thread) {
	if t.watchers == 0 && (t.round == nil || t.round.over()) {
		delete(h.threads, id)
	}
}

func (r *round) over() bool {
	return r.at.Stage == conversation.Answers || r.at.Stage == conversation.Fails
}

// Wrote takes in what a model has written.
func (h *Hub) Wrote(id string, w conversation.Writing) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.entry(id)
	defer h.tidy(id, t)
	r := t.round
	switch {
	case w.Stage == conversation.Begins:
		t.round = &round{at: w}
	case r == nil || r.at.Round != w.Round || r.over():
		return // a later round has begun, as after an interruption
	case w.Stage == conversation.Writes:
		if !r.add(w.Delta) {
			return
		}
	default:
		r.at.Stage = w.Stage
	}
	t.change()
}

// add takes in a delta and reports whether there is something new to see.
func (r *round) add(d conversation.Delta) bool {
	n := len(d.Text)
	if d.Call != nil {
		n += len(d.Call.ID) + len(d.Call.Name) + len(d.Call.Arguments) + 64
	}
	// What comes after a part that was left out would be at a wrong place.
	if r.size += n; r.size > maxBytes {
		return false
	}
	r.text = append(r.text, d.Text...)
	if c := d.Call; c != nil {
		if c.Index < 0 || c.Index > len(r.calls) {
			return len(d.Text) > 0
		}
		if c.Index == len(r.calls) {
			r.calls = append(r.calls, &call{})
		}
		known := r.calls[c.Index]
		known.id, known.name = c.ID, c.Name
		known.args = append(known.args, c.Arguments...)
	}
	return true
}

// View takes in what a view shows. Content that is nil clears it.
func (h *Hub) View(id, kind string, content jsontext.Value) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.threads[id]
	if t == nil || t.watchers == 0 {
		return
	}
	t.change()
	t.views[kind] = view{t.version, content}
	if len(t.views) > maxViews {
		maps.DeleteFunc(t.views, func(_ string, v view) bool { return v.content == nil })
	}
}

// Touch wakes those who watch a thread, since something about it has changed.
func (h *Hub) Touch(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.threads[id]; t != nil {
		t.change()
	}
}

// Watchers returns how many watch.
func (h *Hub) Watchers() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.threads {
		n += t.watchers
	}
	return n
}

// A Watcher watches a thread. It is used by one goroutine at a time.
type Watcher struct {
	hub    *Hub
	id     string
	thread *thread
	seen   uint64 // version

	// How far the watcher has come with a round.
	round      *round
	text       int // bytes
	calls      []toldCall
	seq        int
	superseded bool // a message has taken the place of what was written
}

type toldCall struct {
	id, name string
	args     int
}

// Watch returns a watcher, whose Close has to be called.
func (h *Hub) Watch(id string) *Watcher {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.entry(id)
	t.watchers++
	return &Watcher{hub: h, id: id, thread: t, seen: t.version}
}

// Close ends the watching.
func (w *Watcher) Close() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.thread.watchers--
	w.hub.tidy(w.id, w.thread)
}

// Changed is closed when something has changed since Next was called last.
func (w *Watcher) Changed() <-chan struct{} {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	if w.thread.version != w.seen {
		now := make(chan struct{})
		close(now)
		return now
	}
	return w.thread.changed
}

// Superseded is told of a message of the user's or the model's: what was written of a round in which
// the model was asked before it is void.
func (w *Watcher) Superseded(number int) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	if r := w.thread.round; r != nil && r.at.Messages <= number && r.over() {
		r.text, r.calls = nil, nil // nobody needs it, and it may be large
	}
	if w.round != nil && w.round.at.Messages <= number {
		w.superseded = true
	}
}

// A Part is what a model has written more, or that what it has written is void.
type Part struct {
	Round   uint64
	Attempt int
	Reset   bool // what was written of the round is void
	Seq     int  // number of the part in the attempt; 0 begins it anew
	Delta   conversation.Delta
}

// A Change is what has changed since a watcher looked last.
type Change struct {
	Parts []Part
	Views map[string]jsontext.Value // nil values are cleared
}

// Next returns what has changed. Next is the number of the message that the watcher has not come to
// yet: what was written after messages that are still to come is left for later.
func (w *Watcher) Next(next int) (c Change) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	t := w.thread
	for kind, v := range t.views {
		if v.version > w.seen {
			if c.Views == nil {
				c.Views = map[string]jsontext.Value{}
			}
			c.Views[kind] = v.content
		}
	}
	w.seen = t.version
	r := t.round
	if w.round != nil && !w.superseded && w.seq > 0 && (w.round != r || r.at.Stage == conversation.Fails) {
		c.Parts = append(c.Parts, Part{Round: w.round.at.Round, Attempt: w.round.at.Attempt, Reset: true})
		w.superseded = true
	}
	if r == nil || r.at.Messages > next || r.at.Stage == conversation.Fails || r.over() && next > r.at.Messages {
		return c
	}
	if w.round != r {
		w.round, w.text, w.calls, w.seq, w.superseded = r, 0, nil, 0, false
	}
	if w.superseded {
		return c
	}
	part := func(d conversation.Delta) {
		c.Parts = append(c.Parts, Part{Round: r.at.Round, Attempt: r.at.Attempt, Seq: w.seq, Delta: d})
		w.seq++
	}
	if more := string(r.text[min(w.text, len(r.text)):]); more != "" {
		w.text = len(r.text)
		part(conversation.Delta{Text: more})
	}
	for i, now := range r.calls {
		if i == len(w.calls) {
			w.calls = append(w.calls, toldCall{})
		}
		if told := w.calls[i]; told == (toldCall{now.id, now.name, len(now.args)}) && told != (toldCall{}) {
			continue
		}
		more := string(now.args[w.calls[i].args:])
		w.calls[i] = toldCall{now.id, now.name, len(now.args)}
		part(conversation.Delta{Call: &conversation.CallDelta{Index: i, ID: now.id, Name: now.name, Arguments: more}})
	}
	return c
}
