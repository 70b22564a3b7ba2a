package otelagent_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
)

// TestTraceOfACall checks that a call with a question to the user is one trace over both processes, below the span of the caller.
func TestTraceOfACall(t *testing.T) {
	w := newWorld(t, true)
	rt := w.start(host.Options{})
	defer rt.Stop(context.Background())
	ctx, root := w.of.Tracer("user").Start(within(t), "agent")
	if r := w.call(ctx, rt, "ask"); r.Result.String() != "chosen: 1" || r.Trace.IsZero() {
		t.Errorf("the resolution is %+v, %v", r, r.Result)
	}
	root.End()
	const call = "agent > call ask"
	w.want(root.SpanContext().TraceID(), "agent", call,
		call+" > dispatch ask",
		call+" > dispatch ask > invoke ask",
		call+" > dispatch ask > invoke ask > run ask",
		call+" > dispatch ask > invoke ask > run ask > of the function",
		call+" > dispatch ask > invoke ask > message user_choice",
		call+" > dispatch ask > invoke ask > message user_choice > callback",
		call+" > answer",
		call+" > dispatch ask > invoke ask > message tool_result",
		call+" > dispatch ask > invoke ask > message tool_result > callback",
		call+" > resolve",
	)
	for _, s := range w.spans.Ended() {
		for _, a := range s.Attributes() {
			if v := a.Value.String(); strings.Contains(v, "/rap/v1/cb/") || strings.Contains(v, "chosen") {
				t.Errorf("%s has the attribute %s=%s", s.Name(), a.Key, v)
			}
		}
		if s.Status().Code == codes.Error {
			t.Errorf("%s has failed: %s", s.Name(), s.Status().Description)
		}
	}
}

// TestTraceAfterARestart checks that a call of a durable runtime continues its trace in the next process.
func TestTraceAfterARestart(t *testing.T) {
	w := newWorld(t, true)
	dir, ctx := t.TempDir(), within(t)
	// The callback URL has to lead to the second process too.
	front := httptest.NewUnstartedServer(nil)
	var at sync.Map
	front.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		h, ok := at.Load("now")
		if !ok {
			rw.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		h.(http.Handler).ServeHTTP(rw, r)
	})
	front.Start()
	defer front.Close()
	options := func() host.Options {
		return host.Options{External: true, PublicURL: front.URL, State: &durable.Options{Log: disklog.DirWithOptions(dir, disklog.Options{Reserve: -1}), Partitions: 2}, Sealer: sealer(t)}
	}
	rt := w.start(options())
	at.Store("now", rt.Handler())
	key, err := rt.Call(ctx, host.Request{GroupID: "t", ID: "c", Operation: "wait"})
	if err != nil {
		t.Fatal(err)
	}
	for len(w.invocations()) == 0 {
		select {
		case <-w.news:
		case <-ctx.Done():
			t.Fatal("the call is not posted")
		}
	}
	at.Delete("now")
	rt.Stop(ctx)
	rt = w.start(options())
	defer rt.Stop(context.Background())
	at.Store("now", rt.Handler())
	close(w.gate)
	r, err := rt.Await(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	id, err := trace.TraceIDFromHex(strings.Split(r.Trace.Parent, "-")[1])
	if err != nil {
		t.Fatal(err)
	}
	wanted := []string{
		"call wait", "call wait > resolve",
		"call wait > dispatch wait > invoke wait > message tool_result > callback",
		"call wait > dispatch wait > invoke wait > run wait",
	}
	lacks := func(lines []string) []string {
		return slices.DeleteFunc(slices.Clone(wanted), func(want string) bool { return slices.Contains(lines, want) })
	}
	// Both processes may have posted the call, so there may be additional spans.
	if got := w.tree(id, func(lines []string) bool { return len(lacks(lines)) == 0 }); len(lacks(got)) > 0 {
		t.Errorf("there is no\n%s\nin\n%s", strings.Join(lacks(got), "\n"), strings.Join(got, "\n"))
	}
}

// TestToolServerWithoutTracer checks that callbacks belong to the trace of the call even if the tool server sends no header.
func TestToolServerWithoutTracer(t *testing.T) {
	w := newWorld(t, false)
	rt := w.start(host.Options{})
	defer rt.Stop(context.Background())
	r := w.call(within(t), rt, "ask")
	id, err := trace.TraceIDFromHex(strings.Split(r.Trace.Parent, "-")[1])
	if err != nil {
		t.Fatal(err)
	}
	w.want(id, "call ask", "call ask > dispatch ask", "call ask > callback", "call ask > answer", "call ask > callback", "call ask > resolve")
}

// TestForgedTraceOfACallback checks that a callback stays in the trace of its call if its header names another trace or is
// invalid.
func TestForgedTraceOfACallback(t *testing.T) {
	for _, forged := range []string{"00-0123456789abcdef0123456789abcdef-0123456789abcdef-01", "00-0-0-0", strings.Repeat("x", 5000)} {
		w := newWorld(t, false)
		w.tool.Config.Handler = forger(w.tool.Config.Handler, forged)
		rt := w.start(host.Options{})
		r := w.call(within(t), rt, "forge")
		if r.Result.String() != "forged" {
			t.Fatalf("the result is %v", r.Result)
		}
		id, err := trace.TraceIDFromHex(strings.Split(r.Trace.Parent, "-")[1])
		if err != nil {
			t.Fatal(err)
		}
		w.want(id, "call forge", "call forge > dispatch forge", "call forge > callback", "call forge > resolve")
		rt.Stop(context.Background())
	}
}

// forger answers the invocations of a tool named forge. Its callback has the given traceparent.
func forger(next http.Handler, traceparent string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprintf(w, `{"name":"forger","endpoint":"http://%s/invoke","tools":[{"name":"forge","description":"Forges.","inputSchema":{"type":"object"}}]}`, r.Host)
			return
		}
		if r.URL.Path != "/invoke" {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		inv, err := agentproto.DecodeInvocation(body, agentproto.Limits{})
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		go func() {
			text := "forged"
			data, _ := agentproto.Encode(&agentproto.ToolResult{GroupID: inv.GroupID, ID: inv.ID, Text: &text})
			q, _ := http.NewRequest(http.MethodPost, inv.CallbackURL, strings.NewReader(string(data)))
			q.Header.Set("traceparent", traceparent)
			if resp, err := http.DefaultClient.Do(q); err == nil {
				resp.Body.Close()
			}
		}()
	})
}

// TestNotSampled checks that spans that are not sampled are not recorded, and that the tool server receives the decision.
func TestNotSampled(t *testing.T) {
	w := newWorld(t, true, sdk.WithSampler(sdk.ParentBased(sdk.NeverSample())))
	rt := w.start(host.Options{})
	defer rt.Stop(context.Background())
	w.call(within(t), rt, "ask")
	if n := len(w.spans.Ended()); n != 0 {
		t.Errorf("%d spans are recorded", n)
	}
	for _, h := range w.invocations() {
		if !strings.HasSuffix(h.Get("traceparent"), "-00") {
			t.Errorf("traceparent is %s", h.Get("traceparent"))
		}
	}
	if len(w.invocations()) == 0 {
		t.Error("no request names the trace")
	}
}

// TestFailedRun checks that an error of a tool marks its run as failed, and that no span contains the text of the error.
func TestFailedRun(t *testing.T) {
	w := newWorld(t, true)
	rt := w.start(host.Options{})
	defer rt.Stop(context.Background())
	r := w.call(within(t), rt, "fail")
	id, err := trace.TraceIDFromHex(strings.Split(r.Trace.Parent, "-")[1])
	if err != nil {
		t.Fatal(err)
	}
	w.tree(id, many(7))
	found := false
	for _, s := range w.spans.Ended() {
		if s.Name() == "run fail" {
			found = s.Status().Code == codes.Error
		}
		if strings.Contains(fmt.Sprint(s.Attributes(), s.Status()), "secret reason") {
			t.Errorf("%s has the text of the error", s.Name())
		}
	}
	if !found {
		t.Error("the run has not failed")
	}
}
