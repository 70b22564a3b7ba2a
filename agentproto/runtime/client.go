package runtime

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/purpose"
	"github.com/millrace/millrace/internal/netguard"
)

const (
	maxManifest = 1 << 20  // bytes of a manifest, decompressed
	maxReply    = 64 << 10 // bytes of any other answer, which nobody reads
	drainTime   = time.Second
)

// newHTTPClient returns the client of all requests to tool servers: it connects only to
// where it may, follows no redirects, uses no proxy of the environment, and keeps a
// connection for each request that may be in flight.
func newHTTPClient(opts Options, public string) *http.Client {
	dial := opts.DialContext
	if dial == nil {
		dial = guardOf(opts, public).DialContext(nil)
	}
	config := &tls.Config{}
	if opts.TLS != nil {
		config = opts.TLS.Clone()
	}
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	return &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				ctx, cancel := context.WithTimeout(ctx, opts.Timeouts.Connect)
				defer cancel()
				return dial(ctx, network, addr)
			},
			TLSClientConfig:        config,
			TLSHandshakeTimeout:    opts.Timeouts.Connect,
			MaxIdleConnsPerHost:    opts.Concurrency,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			ForceAttemptHTTP2:      true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// guardOf returns where requests may go: to public addresses, to those that the operator
// has written into a URL, and to this machine if the runtime itself is to be reached here
// only. Source: protocol part 7, threats 11, 12 and 15.
func guardOf(opts Options, public string) netguard.Policy {
	p := netguard.Policy{Allow: opts.AllowNetworks}
	if u, err := url.Parse(public); err == nil {
		p.AllowLoopback = isLoopback(u.Hostname())
	}
	return p.Trust(opts.Toolsets...).Trust(opts.AllowOrigins...)
}

// A reply is what is read of the answer to a message: its status and how long to
// wait before trying again.
type reply struct {
	status     int
	retryAfter time.Duration
	// reached says that a connection was made, so the server may have the message
	// even though post failed.
	reached bool
}

func (r reply) accepted() bool { return r.status >= 200 && r.status <= 299 }

// post sends one message to a server once, signed if the two share a secret. Its id is
// the same for every attempt. Errors contain no URL.
func (rt *Runtime) post(ctx context.Context, s *server, to, messageID string, body []byte) (reply, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var reached atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { reached.Store(true) },
	})
	req, err := rt.newPost(ctx, s, to, messageID, body)
	if err != nil {
		return reply{}, err
	}
	resp, err := rt.http.Do(req)
	if err != nil {
		return reply{reached: reached.Load()}, redacted(err)
	}
	defer resp.Body.Close()
	// The status says it all. The rest is read so that the connection can be used
	// again, if it is short and comes soon.
	defer time.AfterFunc(drainTime, cancel).Stop()
	io.CopyN(io.Discard, resp.Body, maxReply)
	return reply{status: resp.StatusCode, retryAfter: retryAfter(resp.Header, time.Now()), reached: true}, nil
}

// newPost makes the request of post.
func (rt *Runtime) newPost(ctx context.Context, s *server, to, messageID string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return nil, redacted(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "millrace")
	req.Header.Set("webhook-id", messageID)
	if s != nil {
		s.secrets.sign(req.Header, messageID, body)
	}
	rt.introduce(req, s)
	return req, nil
}

// retryAfter reads the header of that name: seconds, or a date. What cannot be
// read is zero.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// messageID makes the webhook-id of a message from what it is for and what is unique to it,
// with a secret URL among that. It has to be the same for every attempt, across restarts
// too, so it is computed; and identifiers do not belong into headers, so it is a
// hash.
func messageID(what string, key agentproto.CallKey, secretURL string) string {
	h := sha256.New()
	for _, part := range []string{"webhook-id", key.GroupID, key.ID, secretURL} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return purpose.ID(what, base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:18]))
}

// freshID makes the webhook-id of a message that is sent once. A tool server has no effect
// for one that it has seen.
func freshID(what string) string { return purpose.ID(what, rand.Text()) }
