package serve

import (
	"crypto/sha256"
	"net/http"
	"slices"
	"time"
)

// Idempotency says how clients give ids to requests that must have one effect, however
// often they are sent; see [Options].Idempotent. The zero value is ready to use.
//
// An id belongs to a route and a caller: two callers may use the same one, and so may the
// requests of two routes. The key of a request, [Request].ID, is made of all three. A
// request whose id came before is answered
//
//	with the first response, if it has the same content,
//	422 if it has other content,
//	409 with a Retry-After if the first request is still being handled,
//	409 if the response is no longer kept.
//
// In a durable flow this holds across crashes.
type Idempotency struct {
	// Caller returns the sender of a request, such as the name of an authenticated user.
	// Nil means the header Authorization as it is. That is right if a client sends the same
	// header in a repeat; set Caller if tokens are renewed. The key contains only a digest
	// of the caller.
	Caller func(*http.Request) string

	// Required lists the methods whose requests must have an id. A request without one is
	// answered 400. Nil means POST and PATCH. Empty and not nil means none.
	Required []string
}

// filled returns a copy with defaults in place of nil.
func (i *Idempotency) filled() *Idempotency {
	if i == nil {
		return nil
	}
	o := *i
	if o.Required == nil {
		o.Required = []string{http.MethodPost, http.MethodPatch}
	}
	return &o
}

// same returns the default of Options.Same.
func (i *Idempotency) same() []string {
	switch {
	case i == nil:
		return []string{"Authorization", "Content-Type", "Cookie"}
	case i.Caller == nil:
		return []string{"Content-Type", "Cookie"}
	}
	return []string{"Content-Type"}
}

// retain returns the default of Options.Retain.
func (i *Idempotency) retain() time.Duration {
	if i == nil {
		return 5 * time.Minute
	}
	return 24 * time.Hour
}

// requires reports whether a request must have an id.
func (i *Idempotency) requires(r *http.Request) bool {
	return i != nil && slices.Contains(i.Required, r.Method)
}

// scopeLen is the length of the part of a key that encodes the route and the caller.
const scopeLen = 27

// key returns the key of a request with the given id.
func (i *Idempotency) key(r *http.Request, route string, name RequestID) RequestID {
	if i == nil {
		return name
	}
	caller := r.Header.Get("Authorization")
	if i.Caller != nil {
		caller = i.Caller(r)
	}
	h := sha256.New()
	field(h, route)
	field(h, caller)
	return RequestID(ordered.EncodeToString(h.Sum(nil)[:16])) + "." + name
}

// name returns the id in a key.
func (i *Idempotency) name(key RequestID) RequestID {
	if i == nil || len(key) < scopeLen {
		return key
	}
	return key[scopeLen:]
}
