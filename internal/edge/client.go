package edge

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"
)

// An Outbound says how connections to others are made. The zero value of each field but Dial is
// the default that its comment names.
type Outbound struct {
	// Dial makes a connection, and refuses addresses that are not allowed; see package netguard.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// TLS has roots and certificates. TLS 1.2 is the least in any case.
	TLS *tls.Config
	// Connect is for a connection, and for its handshake. Zero means 5 s.
	Connect time.Duration
	// Idle is how many connections to one host are kept for the next request. Zero means 64.
	Idle int
	// Most is how many connections to one host there are at most. Zero means no limit.
	Most int
}

// Transport returns a transport that uses no proxy, not even one that the environment names: the
// address that is connected to, and checked, is that of the URL.
func (o Outbound) Transport() *http.Transport {
	set(&o.Connect, 5*time.Second)
	set(&o.Idle, 64)
	config := &tls.Config{}
	if o.TLS != nil {
		config = o.TLS.Clone()
	}
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	return &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, o.Connect)
			defer cancel()
			return o.Dial(ctx, network, addr)
		},
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    o.Connect,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    o.Idle,
		MaxConnsPerHost:        o.Most,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// A Client makes requests, each once. It follows no redirects: what the answer to one says may
// lead anywhere. Its methods may be used concurrently.
type Client struct{ http *http.Client }

// NewClient returns a client whose connections are those of t.
func NewClient(t http.RoundTripper) *Client {
	return &Client{&http.Client{
		Transport:     &marked{t},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// A marked transport has the dialer know what a connection is for.
type marked struct{ http.RoundTripper }

// plainKey is the key of whether a request is not encrypted, in its context.
type plainKey struct{}

// RoundTrip implements [http.RoundTripper].
func (m *marked) RoundTrip(r *http.Request) (*http.Response, error) {
	return m.RoundTripper.RoundTrip(r.WithContext(context.WithValue(r.Context(), plainKey{}, r.URL.Scheme == "http")))
}

// CloseIdleConnections is for [http.Client.CloseIdleConnections].
func (m *marked) CloseIdleConnections() {
	if c, ok := m.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// IsPlain reports, to a dialer with its context, whether the connection is for a request of a [Client]
// that is not encrypted.
func IsPlain(ctx context.Context) bool {
	plain, _ := ctx.Value(plainKey{}).(bool)
	return plain
}

// CloseIdle closes connections that are kept for the next request.
func (c *Client) CloseIdle() { c.http.CloseIdleConnections() }

// Standard returns a client for what wants one of package net/http. Of an answer it reads no more than
// most bytes, and a request with its answer takes no longer than timeout; 0 means no limit.
func (c *Client) Standard(most int64, timeout time.Duration) *http.Client {
	h := *c.http
	if h.Timeout = timeout; most > 0 {
		h.Transport = &limited{h.Transport, most}
	}
	return &h
}

// A limited transport ends answers that are too long.
type limited struct {
	http.RoundTripper
	most int64
}

// RoundTrip implements [http.RoundTripper].
func (l *limited) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, l.most), resp.Body}
	}
	return resp, err
}

// An Answer is what a server said to a request.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte // empty if nobody reads it
	// Broken says why the body is not whole: it is [ErrTooLong], or the connection broke. Of a
	// status that says no, the body often does not matter.
	Broken error
	// RetryAfter is how long the server wants the next attempt to wait, at most an hour. Zero
	// means that it does not say.
	RetryAfter time.Duration
}

// OK reports whether the status is one of 2xx.
func (a *Answer) OK() bool { return a.Status >= 200 && a.Status <= 299 }

// ErrTooLong says that an answer has more bytes than are read.
var ErrTooLong = errors.New("the answer is too long")

// A RequestError says why there is no answer. It does not have the URL, which may be a capability.
type RequestError struct {
	// Reached says that there was a connection, so the server may have the request.
	Reached bool
	Err     error
}

// Error implements error.
func (e *RequestError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *RequestError) Unwrap() error { return e.Err }

// Reached reports whether the server may have the request that err is about.
func Reached(err error) bool {
	e, ok := errors.AsType[*RequestError](err)
	return ok && e.Reached
}

// Of an answer that nobody reads, what is short and comes soon is thrown away, so that the
// connection can be used again.
const (
	drained   = 64 << 10
	drainTime = time.Second
)

// Do makes a request and reads the body of its answer, up to so many bytes; if that is 0, nobody
// reads it. Errors are *[RequestError].
func (c *Client) Do(r *http.Request, most int64) (*Answer, error) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var reached atomic.Bool
	r = r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { reached.Store(true) },
	}))
	if r.Header.Get("User-Agent") == "" {
		r.Header.Set("User-Agent", "millrace")
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, &RequestError{reached.Load(), WithoutURL(err)}
	}
	defer resp.Body.Close()
	a := &Answer{Status: resp.StatusCode, Header: resp.Header, RetryAfter: RetryAfter(resp.Header, time.Now())}
	if most == 0 {
		defer time.AfterFunc(drainTime, cancel).Stop()
		io.CopyN(io.Discard, resp.Body, drained)
		return a, nil
	}
	a.Body, err = io.ReadAll(io.LimitReader(resp.Body, most))
	if n, more := resp.Body.Read(make([]byte, 1)); err == nil && n > 0 {
		err = fmt.Errorf("%w: it is larger than %d bytes", ErrTooLong, most)
	} else if err == nil && more != io.EOF {
		err = more
	}
	if err != nil {
		a.Broken = WithoutURL(err)
	}
	return a, nil
}

// WithoutURL returns an error of package net/http without the URL that it was about.
func WithoutURL(err error) error {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		return ue.Err
	}
	return err
}

// longestRetryAfter bounds what a server can ask for.
const longestRetryAfter = time.Hour

// RetryAfter reads the header of that name (RFC 9110, section 10.2.3): seconds, or a date, an hour at most. What cannot be read is zero.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, longestRetryAfter)
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(0, at.Sub(now)), longestRetryAfter)
	}
	return 0
}
