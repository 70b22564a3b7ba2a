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
	"strings"
	"sync/atomic"
	"time"
)

// An Outbound says how connections to other servers are made. A zero field other than Dial means the
// default that its comment names.
type Outbound struct {
	// Dial makes a connection, and refuses addresses that are not allowed; see package netguard.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// TLS holds roots and certificates. The minimum version is always at least TLS 1.2.
	TLS *tls.Config
	// Connect limits the time to connect, and the time of the handshake. Zero means 5 s.
	Connect time.Duration
	// Idle is the number of connections to one host that are kept for later requests. Zero means 64.
	Idle int
	// Most is the maximum number of connections to one host. Zero means no limit.
	Most int
}

// idle is how long a connection is kept for a later request. It is shorter than the minute after which
// servers usually close one, as [New] does: a request that is sent while its connection is closed fails.
const idle = 45 * time.Second

// Transport returns a transport that uses no proxy, not even one from the environment: the address
// that it checks and connects to is that of the URL.
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
		IdleConnTimeout:        idle,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// A Client makes requests, each once. It follows no redirects, since the target of a redirect may be
// anywhere. Its methods may be used concurrently.
type Client struct{ http *http.Client }

// NewClient returns a client with the transport t.
func NewClient(t http.RoundTripper) *Client {
	return &Client{&http.Client{
		Transport:     &marked{t},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// A marked transport tells the dialer whether a request is encrypted.
type marked struct{ http.RoundTripper }

// plainKey is the context key that says whether a request is unencrypted.
type plainKey struct{}

// RoundTrip implements [http.RoundTripper].
func (m *marked) RoundTrip(r *http.Request) (*http.Response, error) {
	return m.RoundTripper.RoundTrip(r.WithContext(context.WithValue(r.Context(), plainKey{}, r.URL.Scheme == "http")))
}

// CloseIdleConnections implements the method that [http.Client.CloseIdleConnections] calls.
func (m *marked) CloseIdleConnections() {
	if c, ok := m.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// IsPlain reports, for the context of a dialer, whether the connection is for an unencrypted request
// of a [Client].
func IsPlain(ctx context.Context) bool {
	plain, _ := ctx.Value(plainKey{}).(bool)
	return plain
}

// CloseIdle closes the connections that are kept for later requests.
func (c *Client) CloseIdle() { c.http.CloseIdleConnections() }

// Standard returns a client of package net/http. It reads at most most bytes of an answer, and a
// request with its answer takes at most timeout; 0 means no limit.
func (c *Client) Standard(most int64, timeout time.Duration) *http.Client {
	h := *c.http
	if h.Timeout = timeout; most > 0 {
		h.Transport = &limited{h.Transport, most}
	}
	return &h
}

// A limited transport cuts off answers that are too long.
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

// An Answer is the answer of a server to a request.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte // empty if it is not read
	// Broken says why the body is incomplete: it is [ErrTooLong], or the error of the connection. For
	// an error status the body often does not matter.
	Broken error
	// RetryAfter is how long the server wants the next attempt to wait, at most an hour. Zero means
	// that it does not say.
	RetryAfter time.Duration
}

// OK reports whether the status is 2xx.
func (a *Answer) OK() bool { return a.Status >= 200 && a.Status <= 299 }

// ErrTooLong is the error for an answer with more bytes than are read.
var ErrTooLong = errors.New("the answer is too long")

// A RequestError says why there is no answer. It does not contain the URL, which may be a capability.
type RequestError struct {
	// Reached reports that a connection was made, so the server may have received the request.
	Reached bool
	Err     error
}

// Error implements error.
func (e *RequestError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *RequestError) Unwrap() error { return e.Err }

// Reached reports whether the server may have received the request of err.
func Reached(err error) bool {
	e, ok := errors.AsType[*RequestError](err)
	return ok && e.Reached
}

// Limits within which an unread answer is discarded, so that the connection can be used again.
const (
	drained   = 64 << 10
	drainTime = time.Second
)

// Do makes a request and reads at most most bytes of the body of its answer. If most is 0, it does not
// read the body. Errors are *[RequestError].
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

// Segment returns text as one segment of a path. [url.PathEscape] leaves . and .. as they are, and clients and servers resolve
// those, so that a request for a thread with such a name would be one for another path.
func Segment(text string) string {
	if text == "." || text == ".." {
		return strings.ReplaceAll(text, ".", "%2E")
	}
	return url.PathEscape(text)
}

// WithoutURL removes the URL from an error of package net/http.
func WithoutURL(err error) error {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		return ue.Err
	}
	return err
}

// longestRetryAfter limits the time for which a server can ask.
const longestRetryAfter = time.Hour

// RetryAfter returns the value of the Retry-After header (RFC 9110, section 10.2.3), which is in
// seconds or a date. It returns at most an hour, and zero for an invalid value.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	value := h.Get("Retry-After")
	if value == "" {
		return 0 // as in nearly every response; ParseTime would make an error for each of its formats
	}
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, longestRetryAfter)
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(0, at.Sub(now)), longestRetryAfter)
	}
	return 0
}
