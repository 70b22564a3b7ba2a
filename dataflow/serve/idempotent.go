package serve

import (
	"crypto/sha256"
	"net/http"
	"slices"
	"time"
)

// Idempotency says how clients name requests that must have one effect, however often they
// are sent; see [Options].Idempotent. The zero value is ready to use.
//
// An id belongs to a route and a caller: two callers may use the same one, and so may the
// requests of two routes. The key of a request, [Request].ID, is made of all three. A request
// whose id came before is answered
//
//	with the first response, if it has the same content,
//	422 if it has other content,
//	409 with a Retry-After if the first request is still being handled,
//	409 if the response is not kept any longer.
//
// In a durable flow this holds across crashes.
type Idempotency struct {
	// Caller returns who sends a request: the name of an authenticated user, for example.
	// Nil means the header Authorization as it is, which is right as long as a client that
	// repeats a request sends the same one: give Caller where tokens are renewed. The
	// caller is part of the key as a digest only.
	Caller func(*http.Request) string

	// Required are the methods whose requests must have an id; one without is answered
	// 400. Nil means POST and PATCH. Empty and not nil means none.
	Required []string
}

// filled returns a copy with the defaults that hold for each request.
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

// scopeLen is the length of the part of a key that says the route and the caller.
const scopeLen = 27

// key returns the key of the request that has a name.
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

// name returns the name of the request that has a key.
func (i *Idempotency) name(key RequestID) RequestID {
	if i == nil || len(key) < scopeLen {
		return key
	}
	return key[scopeLen:]
}
