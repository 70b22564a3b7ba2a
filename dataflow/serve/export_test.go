package serve

import "time"

// Held counts what a router stores.
type Held struct {
	Known            int // all ids
	Used             int // ids of which only the use is remembered
	Serving          int
	AbandonedPending int
	Abandoned        int
	Retained         int
	Answers          int // given by the flow and not yet taken
}

// Held returns the counts of what a router stores.
func (r *Router[L]) Held() (h Held) {
	d := r.requests
	d.mu.Lock()
	defer d.mu.Unlock()
	h = Held{Known: len(d.known), Serving: d.serving, AbandonedPending: d.abandonedPending, Abandoned: d.abandoned.len(), Retained: d.retained.len()}
	for _, c := range d.known {
		if c == nil {
			h.Used++
		}
	}
	if r.rest != nil {
		h.Answers = r.rest.out.Len()
	}
	return h
}

// Tidy removes what has expired, as each request does.
func (r *Router[L]) Tidy() {
	r.requests.mu.Lock()
	defer r.requests.mu.Unlock()
	for range r.requests.abandoned.len() + 1 {
		r.requests.tidy(time.Now())
	}
}

// IDs returns a function that makes ids and one that recognizes them.
func IDs() (next func() RequestID, made func(RequestID) bool) {
	d := newRequestTable("", Options{})
	return d.ids.next, d.ids.made
}

// Err returns why a response has no body.
func (r Response) Err() string {
	if r.err == nil {
		return ""
	}
	return r.err.Error()
}
