package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/millrace/millrace/dataflow/inspect"
)

// browser returns the path of a browser. It skips the test if there is none.
func browser(t *testing.T) string {
	asked := os.Getenv("MILLRACE_BROWSER")
	if filepath.IsAbs(asked) {
		return asked
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if asked == "required" {
		t.Fatal("there is no browser: apt-get install chromium")
	}
	t.Skip("there is no browser: apt-get install chromium")
	return ""
}

// limit ends a test whose browser hangs. It is long enough for a slow machine.
const limit = 2 * time.Minute

// A tab is a tab of a headless browser.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string
}

// open opens a tab. noProblems reports exceptions, console messages and violations of the content
// security policy.
func open(t *testing.T) *tab {
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browser(t)), chromedp.WindowSize(1280, 1000))
	if os.Geteuid() == 0 {
		opts = append(opts, chromedp.NoSandbox)
	}
	allocated, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(allocated)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	if err := chromedp.Do(ctx); err != nil { // starts the browser
		t.Fatal(err)
	}
	chromedp.Listen(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			b.problems = append(b.problems, fmt.Sprint("exception: ", e.ExceptionDetails))
		case *runtime.EventConsoleAPICalled:
			b.problems = append(b.problems, fmt.Sprint("console: ", e.Type))
		case *log.EventEntryAdded:
			b.problems = append(b.problems, fmt.Sprintf("log: %s %s", e.Entry.Level, e.Entry.Text))
		}
	})
	call(b, log.Enable, cdp.Empty{})
	return b
}

// do runs actions.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, limit)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// call makes a call of the debugging protocol.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, command, params); err != nil {
		b.t.Fatal(err)
	}
}

// visit opens a page and waits until it is loaded.
func (b *tab) visit(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
}

// is waits until an expression is true in the page.
func (b *tab) is(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, limit)
	defer cancel()
	_, err := chromedp.Run(ctx, chromedp.Poll[bool](expression))
	for err != nil && ctx.Err() == nil { // the page may be replaced by another one
		_, err = chromedp.Run(ctx, chromedp.Poll[bool](expression))
	}
	if err != nil {
		b.t.Fatalf("%s does not become true: %v\n%.2000s", expression, err, b.text("body"))
	}
}

// click clicks in the middle of an element.
func (b *tab) click(selector string) {
	b.t.Helper()
	at := eval[[2]float64](b, fmt.Sprintf(`(() => {
		const e = document.querySelector(%q);
		e.scrollIntoView({block: "center"});
		const r = e.getBoundingClientRect();
		return [r.x + r.width / 2, r.y + r.height / 2];
	})()`, selector))
	b.do(chromedp.MouseClickXY(at[0], at[1]))
}

// text returns the text of an element.
func (b *tab) text(selector string) string {
	return eval[string](b, fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector))
}

// eval returns the value of an expression in the page.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// noProblems fails the test if there were problems since the last call, except those that contain one of
// the given texts.
func (b *tab) noProblems(but ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		expected := false
		for _, text := range but {
			expected = expected || strings.Contains(p, text)
		}
		if !expected {
			b.t.Error(p)
		}
	}
	b.problems = nil
}

// shoot saves a screenshot of the page in light and in dark mode.
func (b *tab) shoot(name string) {
	b.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
		if err != nil {
			b.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(b.t.ArtifactDir(), name+"-"+scheme+".png"), png, 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
}

// serve serves a flow under a path of a new server.
func serve(t *testing.T, app inspect.App, o inspect.Options) *httptest.Server {
	mux := http.NewServeMux()
	mux.Handle("/debug/flow/", http.StripPrefix("/debug/flow", inspect.Handler(app, o)))
	s := httptestServer(t, mux)
	s.URL += "/debug/flow/"
	return s
}

// httptestServer serves until the end of the test.
func httptestServer(t *testing.T, h http.Handler) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// quoted returns s as a JavaScript string.
func quoted(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings can always be encoded
	}
	return string(text)
}
