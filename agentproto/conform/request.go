package conform

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// The paths that are the same for every tool server.
const (
	wellKnown  = "/.well-known/rap-toolset"
	closePath  = "/close_thread"
	cancelPath = "/cancel_tool_call"
	statusPath = "/tool_call_status"
	movePath   = "/migrate"
)

// A reply is what the server answered.
type reply struct {
	status int
	header http.Header
	body   string
	fields map[string]any // of the body, if it is a JSON object
}

func (r *reply) String() string { return fmt.Sprintf("status %d, %q", r.status, clip(r.body, 300)) }

// A change alters a request before it is sent.
type change func(*http.Request)

// header sets a header; an empty value removes it.
func header(name, value string) change {
	return func(r *http.Request) {
		if r.Header.Del(name); value != "" {
			r.Header.Set(name, value)
		}
	}
}

// do sends a request and reads the answer, which is kept for the search for tokens.
func (r *toolRun) do(ctx context.Context, method, url string, body []byte, changes ...change) (*reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	} else {
		req.Header.Set("Accept", "application/json")
	}
	for name, value := range r.profile.Headers {
		req.Header.Set(name, value)
	}
	for _, c := range changes {
		c(req)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil {
		return nil, err
	}
	out := &reply{status: resp.StatusCode, header: resp.Header, body: string(data)}
	// A body that is not an object has no fields.
	_ = json.Unmarshal(data, &out.fields)
	r.mu.Lock()
	r.pages = append(r.pages, fmt.Sprint(resp.Header)+out.body)
	r.mu.Unlock()
	return out, nil
}

// manifest requests the manifest, under another host name if host is not empty.
func (r *toolRun) manifest(ctx context.Context, base, host string) (*reply, error) {
	return r.do(ctx, http.MethodGet, base+wellKnown, nil, func(req *http.Request) {
		if host != "" {
			req.Host = host
		}
	})
}

// post sends a message: v as JSON, or unchanged if it is bytes.
func (c *toolCase) post(url string, v any, changes ...change) *reply {
	body, ok := v.([]byte)
	if !ok {
		var err error
		body, err = json.Marshal(v)
		c.must(err, "encode")
	}
	out, err := c.do(c.ctx, http.MethodPost, url, body, changes...)
	c.must(err, "post")
	return out
}

// without removes the credentials of the profile.
func (c *toolCase) without() change {
	return func(req *http.Request) {
		for name := range c.profile.Headers {
			req.Header.Del(name)
		}
	}
}

// as replaces the credentials with those of the second runtime.
func (c *toolCase) as() change {
	return func(req *http.Request) {
		for name := range c.profile.Headers {
			req.Header.Del(name)
		}
		for name, value := range c.profile.OtherHeaders {
			req.Header.Set(name, value)
		}
	}
}
