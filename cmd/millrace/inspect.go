package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/millrace/millrace/dataflow/inspect"
	"github.com/millrace/millrace/internal/plain"
)

const inspectUsage = `usage: millrace inspect URL [locations|operators|outputs|partitions|graph|servers|threads|calls|prompts] [flags]

Prints what the page of a flow shows, while it runs. URL is where a program has mounted
inspect.Handler, such as http://127.0.0.1:9090/inspect, where 'millrace serve --monitor 127.0.0.1:9090'
has its page.

Without a word behind URL it prints whether the flow is healthy and what is stopped and why, its
locations, partitions and outputs, and the 10 operators to which most came; with one, all of
these. graph prints each operator with its reason and those that read it, or with --svg, --dot or
--mermaid a picture.

Of a runtime of agents servers prints its tool servers, threads the threads of conversations, calls the calls that are
not over, and prompts what users are asked: what the process has at URL. All but servers need a page that shows what
users and tools have written, as that of the API of 'millrace serve' does.

The token of the page, if it has one, is in ` + inspectTokenEnv + ` of the environment, or in --token-file.

The exit status is 0 if the flow is healthy, 1 if it is not, 2 for a wrong command line, and 3 if there is no
answer.

`

// inspectTokenEnv is the environment variable with the token of a page.
const inspectTokenEnv = "MILLRACE_INSPECT_TOKEN"

// inspectWithin limits the time of an answer. The answer of a flow in a long step takes 10 ms.
const inspectWithin = 10 * time.Second

// An inspection holds the flags of 'millrace inspect'.
type inspection struct {
	client            apiClient
	view              string
	json              bool
	watch             time.Duration
	svg, dot, mermaid bool
}

// A healthBody is the answer of /healthz.
type healthBody struct {
	Status  string           `json:"status"`
	Reasons []inspect.Reason `json:"reasons"`
}

// A graphBody is the answer of /v1/graph.
type graphBody struct {
	Name      string          `json:"name"`
	Locations []string        `json:"locations"`
	Operators []graphOperator `json:"operators"`
	Edges     []struct {
		From int `json:"from"`
		To   int `json:"to"`
	} `json:"edges"`
}

// A graphOperator is an operator in a graphBody.
type graphOperator struct {
	Name     string `json:"name"`
	Port     string `json:"port"`
	Label    string `json:"label"`
	Pos      string `json:"pos"`
	Why      string `json:"why"`
	Proof    string `json:"proof"`
	Location int    `json:"location"`
}

func inspectFlow(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("inspect", flag.ContinueOnError)
	fs.Usage = func() { fmt.Fprint(fs.Output(), inspectUsage); fs.PrintDefaults() }
	var i inspection
	fs.BoolVar(&i.json, "json", false, "print the answers as JSON: health and status, or the graph")
	fs.DurationVar(&i.watch, "watch", 0, "print again after so `long`, such as 1s, until interrupted")
	fs.BoolVar(&i.svg, "svg", false, "print the graph as a picture")
	fs.BoolVar(&i.dot, "dot", false, "print the graph in the language of Graphviz")
	fs.BoolVar(&i.mermaid, "mermaid", false, "print the graph as a flowchart of Mermaid")
	tokenFile := fs.String("token-file", "", "`file` with the token of the page")
	var words []string
	for { // flags may come before, between and after arguments
		if err := parse(fs, args); err != nil {
			return err
		}
		if fs.NArg() == 0 {
			break
		}
		words, args = append(words, fs.Arg(0)), fs.Args()[1:]
	}
	if len(words) == 0 {
		return misused(fs, "no URL of a page")
	}
	if len(words) > 1 {
		i.view = words[1]
	}
	forms := 0
	for _, form := range []bool{i.json, i.svg, i.dot, i.mermaid} {
		if form {
			forms++
		}
	}
	base, err := pageURL(words[0])
	switch {
	case err != nil:
		return misused(fs, "%v", err)
	case len(words) > 2:
		return misused(fs, "what is %s?", strings.Join(words[2:], " "))
	case views[i.view] == nil && agentViews[i.view].row == nil:
		return misused(fs, "there is no %s: locations, operators, outputs, partitions, graph, servers, threads, calls or prompts?", i.view)
	case i.watch < 0:
		return misused(fs, "--watch must be positive")
	case forms > 1:
		return misused(fs, "one of --json, --svg, --dot and --mermaid")
	case (i.svg || i.dot || i.mermaid) && i.view != "graph":
		return misused(fs, "--svg, --dot and --mermaid are for graph")
	}
	i.client = apiClient{base: base, token: os.Getenv(inspectTokenEnv)}
	if *tokenFile != "" {
		if i.client.token, err = readToken(*tokenFile); err != nil {
			return misused(fs, "%v", err)
		}
	}
	return i.run(ctx)
}

// pageURL returns the URL of a page, without a slash at the end.
func pageURL(raw string) (string, error) {
	if !strings.Contains(raw, "://") {
		raw = "http://" + raw
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("%q is no URL of a page, such as http://127.0.0.1:9090/inspect", raw)
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// run prints once, or repeatedly with --watch. The exit status is that of the last print that was not
// interrupted.
func (i *inspection) run(ctx context.Context) error {
	last := errNoAnswer
	for {
		err := i.print(ctx)
		switch {
		case errors.Is(err, context.Canceled):
			return last
		case i.watch == 0 || err != nil && !errors.Is(err, errFailed) && !errors.Is(err, errNoAnswer):
			return err
		}
		last = err
		select {
		case <-ctx.Done():
			return err
		case <-time.After(i.watch):
			fmt.Fprintln(stdout)
		}
	}
}

// print prints once. The error is errFailed if the flow is not healthy.
func (i *inspection) print(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, inspectWithin)
	defer cancel()
	var health healthBody
	healthText, err := i.get(ctx, "/healthz", &health, http.StatusOK, http.StatusServiceUnavailable)
	if err != nil {
		return err
	}
	if err := i.show(ctx, &health, healthText); err != nil {
		return err
	}
	if len(health.Reasons) > 0 || health.Status != "ok" {
		return errFailed
	}
	return nil
}

// show prints the view: a picture, JSON, or text.
func (i *inspection) show(ctx context.Context, health *healthBody, healthText []byte) error {
	for path, is := range map[string]bool{"/v1/graph.svg": i.svg, "/v1/graph.dot": i.dot, "/v1/graph.mmd": i.mermaid} {
		if is {
			text, err := i.get(ctx, path, nil, http.StatusOK)
			return errors.Join(err, written(fmt.Fprintf(stdout, "%s", text)))
		}
	}
	if agentViews[i.view].row != nil {
		return i.showAgents(ctx)
	}
	var graph graphBody
	graphText, err := i.get(ctx, "/v1/graph", &graph, http.StatusOK)
	if err != nil {
		return err
	}
	if i.json && i.view == "graph" {
		return written(fmt.Fprintf(stdout, "%s", plain.JSON(graphText)))
	}
	var s inspect.Snapshot
	text, err := i.get(ctx, "/v1/status", &s, http.StatusOK)
	if err != nil {
		return err
	}
	if i.json {
		return i.printJSON(struct {
			Health json.RawMessage `json:"health"`
			Status json.RawMessage `json:"status"`
		}{healthText, text})
	}
	t := newReport(&s, &graph, health)
	views[i.view](t)
	return t.flush(stdout)
}

func written(_ int, err error) error { return err }

// printJSON prints a value; with --watch on one line.
func (i *inspection) printJSON(x any) error {
	text, err := json.Marshal(x)
	if err != nil {
		return err
	}
	if i.watch == 0 {
		var b bytes.Buffer
		if err := json.Indent(&b, text, "", "  "); err != nil {
			return err
		}
		text = b.Bytes()
	}
	return written(fmt.Fprintf(stdout, "%s\n", plain.JSON(text)))
}

// get makes a request and returns an answer with one of the wanted statuses. Unless into is nil, it
// decodes the answer as JSON into it. For any other answer it prints the reason and returns errNoAnswer.
// It prints nothing for a request that was interrupted.
func (i *inspection) get(ctx context.Context, path string, into any, want ...int) ([]byte, error) {
	status, text, err := i.client.do(ctx, http.MethodGet, path, nil)
	for _, w := range want {
		if err == nil && status == w {
			if into != nil {
				err = json.Unmarshal(text, into)
			}
			if err == nil {
				return text, nil
			}
		}
	}
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return nil, context.Canceled
	case err != nil:
	case status == http.StatusUnauthorized:
		err = fmt.Errorf("%s asks for a token: give it in %s or --token-file", i.client.base, inspectTokenEnv)
	case status == http.StatusNotFound && !json.Valid(text): // the server knows no such path
		err = fmt.Errorf("there is no page of a flow at %s: is it mounted elsewhere, such as at /inspect?", i.client.base)
	default:
		err = fmt.Errorf("%s: %s", i.client.base, problemIn(status, text))
	}
	fmt.Fprintf(stderr, "millrace inspect: %v\n", err)
	return nil, errNoAnswer
}
