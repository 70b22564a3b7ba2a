package inspect_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/inspect"
)

// TestRequests makes requests of all kinds. Only permitted requests get an answer from the flow.
func TestRequests(t *testing.T) {
	app, _ := counting(t)
	var log bytes.Buffer
	open := inspect.Handler(app, inspect.Options{})
	anywhere := inspect.Handler(app, inspect.Options{AnyHost: true})
	closed := inspect.Handler(app, inspect.Options{Token: "right", Hosts: []string{"flows.example"}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for _, x := range []struct {
		h            http.Handler
		method, path string
		header       string // name and value pairs, separated by bars
		want         int
	}{
		{open, "GET", "/", "", 200},
		{open, "HEAD", "/", "", 200},
		{open, "GET", "/?fold=0", "", 200},
		{open, "GET", "/?fold=2", "", 200},
		{open, "GET", "/?fold=3", "", 400},
		{open, "GET", "/?fold=maybe", "", 400},
		{open, "GET", "/?fold=0&fold=1", "", 400},
		{open, "GET", "/?flod=0", "", 400},
		{open, "GET", "/?%zz", "", 400},
		{open, "GET", "/v1/status?most=3", "", 400},
		{open, "GET", "/v1/graph.svg", "", 200},
		{open, "GET", "/v1/graph.dot", "", 200},
		{open, "GET", "/v1/graph.mmd", "", 200},
		{open, "GET", "/v2/status", "", 404},
		{open, "GET", "/none", "", 404},
		{open, "POST", "/", "", 405},
		{open, "PUT", "/v1/status", "", 405},
		{open, "DELETE", "/v1/graph", "", 405},
		{open, "GET", "/", "Host|evil.example", 421},
		{open, "GET", "/", "Host|localhost.evil.example", 421},
		{open, "GET", "/", "Host|192.0.2.1:80", 421},
		{open, "GET", "/", "Host|127.0.0.1", 200},
		{open, "GET", "/", "Host|127.8.8.8:80", 200},
		{open, "GET", "/", "Host|[::1]:7341", 200},
		{open, "GET", "/", "Host|LOCALHOST", 200},
		{open, "GET", "/v1/status", "Origin|http://evil.example", 403},
		{open, "GET", "/v1/status", "Origin|null", 403},
		{open, "GET", "/v1/status", "Origin|http://localhost:7341", 200},
		{open, "GET", "/v1/status", "Sec-Fetch-Site|cross-site|Sec-Fetch-Mode|no-cors", 403},
		{open, "GET", "/", "Sec-Fetch-Site|cross-site|Sec-Fetch-Mode|navigate", 200}, // a link
		{anywhere, "GET", "/", "Host|flows.example", 200},
		{anywhere, "GET", "/v1/status", "Host|flows.example|Origin|http://evil.example", 403},
		{closed, "GET", "/", "", 401},
		{closed, "GET", "/v1/status", "Authorization|Bearer wrong", 401},
		{closed, "GET", "/v1/status", "Authorization|Bearer ", 401},
		{closed, "GET", "/v1/status?token=right", "", 401},
		{closed, "GET", "/v1/status", "Authorization|Bearer right", 200},
		{closed, "GET", "/v1/status", "Authorization|bearer  right", 200},
		{closed, "GET", "/v1/status", "Authorization|right", 401},
		{closed, "GET", "/v1/status", "Authorization|Digest right", 401},
		{closed, "GET", "/", "Authorization|Basic YW55OnJpZ2h0", 200},
		{closed, "GET", "/", "Authorization|Basic cmlnaHQ6YW55", 401},
		{closed, "GET", "/", "Host|flows.example:443|Authorization|Bearer right", 200},
		{closed, "GET", "/livez", "Host|evil.example", 200},
		{closed, "GET", "/healthz", "Host|10.0.0.1", 200},
		{closed, "POST", "/healthz", "", 405},
		{closed, "GET", "/", "Host|evil.example", 421},
		{closed, "GET", "/", "Host|evil.example", 421},
	} {
		var header []string
		if x.header != "" {
			header = strings.Split(x.header, "|")
		}
		resp, body := ask(t, x.h, x.method, x.path, header...)
		if resp.StatusCode != x.want {
			t.Errorf("%s %s %q: %d, want %d: %.300s", x.method, x.path, x.header, resp.StatusCode, x.want, body)
		}
		if x.want != 200 && strings.Contains(body, "votes") {
			t.Errorf("%s %s %q is refused and says %s", x.method, x.path, x.header, body)
		}
		if resp.Header.Get("Access-Control-Allow-Origin") != "" || x.want == 401 && resp.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s %s %q has the header %v", x.method, x.path, x.header, resp.Header)
		}
	}
	if n := strings.Count(log.String(), "host=evil.example"); n != 1 {
		t.Errorf("the logger was told %d times: %s", n, log.String())
	}
}

// TestHostileNames uses names and reasons that would become elements of the page without
// escaping.
func TestHostileNames(t *testing.T) {
	for _, name := range []string{`</title><script>alert(1)</script>`, `"]]>`, "a\u202eb", strings.Repeat("x", 10<<20), "\xff\xfe", `" onload="alert(1)`, "{{.}}"} {
		flow := dataflow.New()
		counted(flow, name, name)
		app, err := dataflow.Start(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		h := inspect.Handler(app, inspect.Options{Name: name})
		resp, page := ask(t, h, "GET", "/")
		if strings.Contains(page, "<script>alert") || strings.Contains(page, ` onload="`) || strings.Contains(page, "\u202e") || len(page) > 1<<20 || resp.StatusCode != 200 {
			t.Errorf("the page of %.30q is %v, %d bytes: %.3000s", name, resp.Status, len(page), page)
		}
		if n := strings.Count(page, "<script"); n != 1 {
			t.Errorf("the page of %.30q has %d scripts", name, n)
		}
		for _, path := range []string{"/v1/graph", "/v1/graph.svg", "/v1/status"} {
			if resp, body := ask(t, h, "GET", path); resp.StatusCode != 200 || strings.Contains(body, "<script") {
				t.Errorf("%s of %.30q is %v: %.300s", path, name, resp.Status, body)
			}
		}
	}
}

// TestPage checks the page of a flow with many operators: it is small, loads nothing, works
// under any prefix, and permits only its own script and style.
func TestPage(t *testing.T) {
	flow := dataflow.New()
	for i := range 15 {
		counted(flow, fmt.Sprint("votes", i), "because")
	}
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	h := http.StripPrefix("/a/b", inspect.Handler(app, inspect.Options{}))
	resp, page := ask(t, h, "GET", "/a/b/")
	if resp.StatusCode != 200 || len(page) > 150_000 {
		t.Errorf("%v, %d bytes", resp.Status, len(page))
	}
	for _, m := range regexp.MustCompile(`(?:href|src)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if link := m[1]; !strings.HasPrefix(link, "#") && !strings.HasPrefix(link, "?") && link != "./" && !strings.HasPrefix(link, "v1/") && link != "data:," {
			t.Errorf("the page has the link %q", link)
		}
	}
	if m := regexp.MustCompile(` (?:style|on\w+)="`).FindString(page); m != "" {
		t.Errorf("the page has %s", m)
	}
	policy := resp.Header.Get("Content-Security-Policy")
	if strings.Contains(policy, "unsafe") || !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") || strings.Count(policy, "sha256-") != 2 {
		t.Errorf("the policy is %s", policy)
	}
	if again, body := ask(t, h, "GET", "/a/b/v1/status"); again.StatusCode != 200 || again.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v: %.100s", again.Status, body)
	}
}

// TestMisuse checks that Handler panics for an App that is not a started flow.
func TestMisuse(t *testing.T) {
	for _, app := range []inspect.App{nil, noStatus{}} {
		func() {
			defer func() {
				if p, ok := recover().(string); !ok || !strings.Contains(p, "dataflow.Start") {
					t.Errorf("Handler(%T) panics with %v", app, p)
				}
			}()
			inspect.Handler(app, inspect.Options{})
		}()
	}
}

type noStatus struct{}

func (noStatus) Graph() dataflow.Graph { return dataflow.Graph{} }
func (noStatus) Done() <-chan struct{} { return nil }
func (noStatus) Err() error            { return nil }
