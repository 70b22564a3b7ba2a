package conform_test

import (
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
)

// twice sends every message twice.
func twice(next http.RoundTripper) http.RoundTripper {
	return tripper(func(r *http.Request) (*http.Response, error) {
		data := bodyOf(r)
		resp, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		resp.Body.Close()
		setBody(r, data)
		return next.RoundTrip(r)
	})
}

// freshID gives each invocation a new id, so that the server takes it for a new call.
// oldID restores the id on the way back.
func freshID(m map[string]any) {
	if id, ok := m["id"].(string); ok {
		m["id"] = id + "~" + rand.Text()
	}
}

func oldID(m map[string]any) {
	if id, ok := m["id"].(string); ok {
		m["id"], _, _ = strings.Cut(id, "~")
	}
}

// impatient hides the runtime's Retry-After from the server.
func impatient(next http.RoundTripper) http.RoundTripper {
	return tripper(func(r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err == nil {
			resp.Header.Del("Retry-After")
		}
		return resp, err
	})
}

func renumbered() func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return tripper(func(r *http.Request) (*http.Response, error) {
			r.Header.Set("webhook-id", rand.Text())
			return next.RoundTrip(r)
		})
	}
}

// following follows redirects.
func following(next http.RoundTripper) http.RoundTripper {
	return tripper(func(r *http.Request) (*http.Response, error) {
		data := bodyOf(r)
		resp, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		to, err := resp.Location()
		if err != nil {
			return resp, nil // no redirect
		}
		resp.Body.Close()
		r = r.Clone(r.Context())
		r.URL, r.Host = to, to.Host
		setBody(r, data)
		return next.RoundTrip(r)
	})
}

// mixedUp gives each message the text of the one before.
func mixedUp() func(http.RoundTripper) http.RoundTripper {
	var mu sync.Mutex
	var before any = "nothing yet"
	return sent(func(m map[string]any) {
		mu.Lock()
		defer mu.Unlock()
		before, m["text"] = m["text"], before
	})
}

// byIDAlone cancels a call by its id, in whatever thread the call is.
func byIDAlone() func(http.Handler) http.Handler {
	var threads sync.Map
	return func(next http.Handler) http.Handler {
		note := received("/invoke", func(m map[string]any) { threads.Store(m["id"], m["group_id"]) })
		find := received("/cancel_tool_call", func(m map[string]any) {
			if thread, ok := threads.Load(m["tool_call_id"]); ok {
				m["thread_id"] = thread
			}
		})
		return note(find(next))
	}
}

// overtaking sends a rejected event after the event that follows it.
func overtaking() func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		var mu sync.Mutex
		var waiting *http.Request
		return tripper(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			data := bodyOf(r)
			if !strings.Contains(string(data), "subscription_event") {
				return next.RoundTrip(r)
			}
			resp, err := next.RoundTrip(r)
			if err != nil {
				return nil, err
			}
			if resp.StatusCode == http.StatusServiceUnavailable {
				waiting = r.Clone(r.Context())
				setBody(waiting, data)
				waiting = waiting.WithContext(r.Context())
				resp.StatusCode = http.StatusOK
				return resp, nil
			}
			if waiting != nil {
				again := waiting.Clone(r.Context())
				waiting = nil
				late, err := next.RoundTrip(again)
				if err != nil {
					return nil, err
				}
				io.Copy(io.Discard, late.Body)
				late.Body.Close()
			}
			return resp, nil
		})
	}
}

// lastQuestion holds the path of the latest question.
var lastQuestion sync.Map

func rememberQuestion(m map[string]any) {
	if u, err := url.Parse(text(m["response_url"])); err == nil && u.Path != "" {
		lastQuestion.Store("", u.Path)
	}
}

func text(v any) string { s, _ := v.(string); return s }

// anyAnswer takes an answer at any address as the answer to the latest question.
func anyAnswer(next http.Handler) http.Handler {
	return request(func(r *http.Request) {
		if path, ok := lastQuestion.Load(""); ok && strings.HasPrefix(r.URL.Path, "/choice/") {
			r.URL.Path = path.(string)
		}
	})(next)
}

// anySelection replaces every selection by the first choice.
func anySelection(next http.Handler) http.Handler {
	return request(func(r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/choice/") {
			setBody(r, altered(bodyOf(r), func(m map[string]any) { m["selected"] = 0 }))
		}
	})(next)
}

// anyState completes the last authorization, whatever the state is.
func anyState() func(http.Handler) http.Handler {
	var last sync.Map
	state := regexp.MustCompile(`[?&;]state=([A-Za-z0-9]+)`)
	return func(next http.Handler) http.Handler {
		note := response(func(r *http.Request, rec *httptest.ResponseRecorder) {
			if m := state.FindStringSubmatch(rec.Body.String()); m != nil {
				last.Store("", m[1])
			}
		})
		use := request(func(r *http.Request) {
			if s, ok := last.Load(""); ok && strings.HasPrefix(r.URL.Path, "/oauth/callback/") {
				q := r.URL.Query()
				q.Set("state", s.(string))
				r.URL.RawQuery = q.Encode()
			}
		})
		return use(note(next))
	}
}
