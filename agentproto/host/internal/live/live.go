// Package live holds what goes on in threads right now and is not stored: what models write, and which views have changed. A
// [Hub] receives it and wakes the watchers of a thread.
//
// Watchers have no queues. A running round has one text, and each watcher remembers how much of it it has seen. So a slow watcher
// gets larger parts, and one that joins late first gets what was written before.
package live

import (
	"maps"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto/conversation"
)

// The limits for one thread. A reply of more than maxBytes is seen only when it is complete. Beyond maxViews, cleared views are
// forgotten.
const (
	maxBytes = 1 << 20
	maxViews = 256
)

// A Hub distributes what goes on in threads. Its methods are safe for concurrent use; the zero value is ready to use.
type Hub struct {
	mu      sync.Mutex
	threads map[string]*thread
}

// A thread is a thread that is being watched, or whose model is being asked.
type thread struct {
	watchers int
	changed  chan struct{} // closed at the next change
	version  uint64        // counts all changes
	round    *round        // nil if nothing was written recently
	views    map[string]view
}

// A round is what a model has written in one attempt.
type round struct {
	at    conversation.Writing // its Stage is the stage of the round
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

// entry returns a thread, which it makes if necessary. The caller holds mu.
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

// change wakes the watchers. The caller holds mu.
func (t *thread) change() {
	t.version++
	if t.watchers > 0 {
		close(t.changed)
		t.changed = make(chan struct{})
	}
}

// tidy removes a thread with nothing to remember. The caller holds mu.
func (h *Hub) tidy(id string, t *thread) {
	if t.watchers == 0 && (t.round == nil || t.round.over()) {
		delete(h.threads, id)
	}
}

func (r *round) over() bool {
	return r.at.Stage == conversation.Answers || r.at.Stage == conversation.Fails
}

// Wrote handles a step of what a model writes.
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
		return // a later round has begun, for example after an interruption
	case w.Stage == conversation.Writes:
		if !r.add(w.Delta) {
			return
		}
	default:
		r.at.Stage = w.Stage
	}
	t.change()
}

// add appends a delta, and reports whether watchers have something new to see.
func (r *round) add(d conversation.Delta) bool {
	n := len(d.Text)
	if d.Call != nil {
		n += len(d.Call.ID) + len(d.Call.Name) + len(d.Call.Arguments) + 64
	}
	// After an omitted part, further parts would be at the wrong place.
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

// View handles new content of a view. Nil clears the view.
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

// Touch wakes the watchers of a thread after some other change.
func (h *Hub) Touch(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.threads[id]; t != nil {
		t.change()
	}
}

// Watchers returns the number of watchers.
func (h *Hub) Watchers() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.threads {
		n += t.watchers
	}
	return n
}

// A Watcher watches a thread. It must not be used concurrently.
type Watcher struct {
	hub    *Hub
	id     string
	thread *thread
	seen   uint64 // the version it has seen

	// How much of a round the watcher has seen.
	round      *round
	text       int // bytes
	calls      []toldCall
	seq        int
	superseded bool // a message has replaced what was written
}

type toldCall struct {
	id, name string
	args     int
}

// Watch returns a watcher. The caller must call its Close.
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

// Changed returns a channel that is closed when something has changed since the last call of Next.
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

// Superseded reports a message of the user or the model with this number. Text of a round in which the model was asked before
// that message is then void.
func (w *Watcher) Superseded(number int) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	if r := w.thread.round; r != nil && r.at.Messages <= number && r.over() {
		r.text, r.calls = nil, nil // no longer needed, and it may be large
	}
	if w.round != nil && w.round.at.Messages <= number {
		w.superseded = true
	}
}

// A Part is a further part of what a model writes, or says that what it wrote is void.
type Part struct {
	Round   uint64
	Attempt int
	Reset   bool // what was written of the round so far is void
	Seq     int  // number of the part in the attempt; 0 starts the text anew
	Delta   conversation.Delta
}

// A Change is what has changed since a watcher last looked.
type Change struct {
	Parts []Part
	Views map[string]jsontext.Value // nil for a cleared view
}

// Next returns what has changed. Its argument is the number of the first message that the watcher has not seen: text that was
// written after later messages is left for a later call.
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
