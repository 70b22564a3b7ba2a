package serve

import "time"

// Held is what a router holds on to.
type Held struct {
	Known            int // ids, of which
	Used             int // remember only that they were used
	Serving          int
	AbandonedPending int
	Abandoned        int
	Retained         int
	Answers          int // that the flow gave and nobody has taken
}

// Held returns what a router holds on to.
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

// Tidy does what is due, as requests do when they come.
func (r *Router[L]) Tidy() {
	r.requests.mu.Lock()
	defer r.requests.mu.Unlock()
	for range r.requests.abandoned.len() + 1 {
		r.requests.tidy(time.Now())
	}
}

// IDs returns a source of ids.
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
