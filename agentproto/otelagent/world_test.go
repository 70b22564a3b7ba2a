package otelagent_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/agentproto/otelagent"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// A chooser answers every question of a tool.
type chooser struct {
	host.Surface
	answers host.Answerer
}

func (c *chooser) Bind(a host.Answerer) { c.answers = a }
func (c *chooser) Choice(ctx context.Context, key agentproto.CallKey, q *agentproto.UserChoice) {
	go c.answers.Answer(ctx, key, q.ResponseURL, 1)
}
func (c *chooser) OAuth(context.Context, agentproto.CallKey, *agentproto.OAuth) {}
func (c *chooser) Withdraw(agentproto.CallKey, string)                          {}
func (c *chooser) Progress(agentproto.CallKey, agentproto.State)                {}
func (c *chooser) View(agentproto.CallKey, *agentproto.ViewUpdate)              {}

// A world is a runtime and a tool server that record their spans with one recorder.
type world struct {
	t     *testing.T
	spans *tracetest.SpanRecorder
	of    *sdk.TracerProvider
	tool  *httptest.Server
	gate  chan struct{} // the tool "wait" returns once it is closed
	news  chan struct{} // receives when something happens that a test may wait for

	mu      sync.Mutex
	headers []http.Header // of the requests to the tool server
}

func newWorld(t *testing.T, toolTracer bool, options ...sdk.TracerProviderOption) *world {
	w := &world{t: t, spans: tracetest.NewSpanRecorder(), gate: make(chan struct{}), news: make(chan struct{}, 1)}
	w.of = sdk.NewTracerProvider(append(options, sdk.WithSpanProcessor(w.spans), sdk.WithSpanProcessor(herald{w}))...)
	w.tool = httptest.NewUnstartedServer(nil)
	o := toolserver.Options{Name: "tools", PublicURL: "http://" + w.tool.Listener.Addr().String()}
	if toolTracer {
		o.Tracer = otelagent.New(w.of)
	}
	s := toolserver.New(o)
	toolserver.Add(s, "ask", "Asks.", func(ctx context.Context, _ struct{}) (string, error) {
		_, span := w.of.Tracer("user").Start(ctx, "of the function") // as any library would
		defer span.End()
		i, err := toolserver.Choose(ctx, "Which?", []string{"a", "b"}, 0)
		return fmt.Sprint("chosen: ", i), err
	})
	toolserver.Add(s, "wait", "Waits.", func(ctx context.Context, _ struct{}) (string, error) {
		select {
		case <-w.gate:
			return "done", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
	toolserver.Add(s, "fail", "Fails.", func(context.Context, struct{}) (string, error) { return "", fmt.Errorf("a secret reason") })
	w.tool.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.headers = append(w.headers, r.Header.Clone())
		w.mu.Unlock()
		w.tell()
		s.ServeHTTP(rw, r)
	})
	w.tool.Start()
	t.Cleanup(func() { w.tool.Close(); s.Close(context.Background()) })
	return w
}

func (w *world) tell() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// A herald notifies a world of each span that ends.
type herald struct{ of *world }

func (h herald) OnEnd(sdk.ReadOnlySpan)                   { h.of.tell() }
func (herald) OnStart(context.Context, sdk.ReadWriteSpan) {}
func (herald) Shutdown(context.Context) error             { return nil }
func (herald) ForceFlush(context.Context) error           { return nil }

func (w *world) start(o host.Options) *host.Runtime {
	w.t.Helper()
	o.Toolsets, o.Surface, o.Tracer = []string{w.tool.URL}, new(chooser), otelagent.New(w.of)
	rt, err := host.Start(context.Background(), o)
	if err != nil {
		w.t.Fatal(err)
	}
	return rt
}

// tree returns the spans of a trace, each with its ancestors, sorted. It waits until whole returns true.
func (w *world) tree(id trace.TraceID, whole func(lines []string) bool) (lines []string) {
	w.t.Helper()
	for over := time.After(30 * time.Second); ; {
		lines = nil
		names, parents := map[trace.SpanID]string{}, map[trace.SpanID]trace.SpanID{}
		var all []trace.SpanID
		for _, s := range w.spans.Ended() {
			if c := s.SpanContext(); c.TraceID() == id {
				names[c.SpanID()], parents[c.SpanID()] = s.Name(), s.Parent().SpanID()
				all = append(all, c.SpanID())
			}
		}
		for _, s := range all {
			line := names[s]
			for at := parents[s]; at.IsValid(); at = parents[at] {
				name := names[at]
				if name == "" {
					name = "?"
				}
				line = name + " > " + line
			}
			lines = append(lines, line)
		}
		slices.Sort(lines)
		if whole(lines) {
			return lines
		}
		select {
		case <-w.news: // a span ends after the effect of what it records
		case <-over:
			return lines
		}
	}
}

func (w *world) want(id trace.TraceID, want ...string) {
	w.t.Helper()
	slices.Sort(want)
	if got := w.tree(id, many(len(want))); !slices.Equal(got, want) {
		w.t.Errorf("the spans are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// many returns a condition for tree: at least n spans.
func many(n int) func([]string) bool { return func(lines []string) bool { return len(lines) >= n } }

func (w *world) call(ctx context.Context, rt *host.Runtime, operation string) *agentproto.Resolution {
	w.t.Helper()
	key, err := rt.Call(ctx, host.Request{GroupID: "t", Operation: operation})
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := rt.Await(ctx, key)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// invocations returns the headers of the requests to the tool server that name a span.
func (w *world) invocations() (all []http.Header) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.headers {
		if h.Get("traceparent") != "" {
			all = append(all, h)
		}
	}
	return all
}

// sealer returns a sealer with the same keys for each process.
func sealer(t *testing.T) host.Sealer {
	t.Helper()
	s, err := host.SealerOf([32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
