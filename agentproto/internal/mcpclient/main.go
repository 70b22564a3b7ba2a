// Command mcpclient is the client that the official conformance suite of MCP tests: a runtime with the tools of one MCP server,
// which it reaches as 'millrace serve --mcp' does. It calls each tool once. .ci/mcp-conformance runs it. It is only for tests.
//
// The last argument is the address of the server. MCP_CONFORMANCE_CONTEXT may contain, as JSON, a client that is registered at an
// issuer, and calls to make instead of generated ones.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"os"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/agentproto/mcptools"
	"github.com/millrace/millrace/agentproto/toolserver"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second) // the suite's limit is 30
	defer cancel()
	if len(os.Args) < 2 {
		log.Fatal("usage: mcpclient URL")
	}
	if err := run(ctx, os.Args[len(os.Args)-1]); err != nil {
		log.Fatal(err)
	}
}

// A scenario is what the suite passes to a client.
type scenario struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	Issuer       string `json:"issuer"`
	Calls        []struct {
		Name      string         `json:"name"`
		Arguments map[string]any `json:"arguments"`
	} `json:"toolCalls"`
}

// server is the name of the MCP server. Its tools keep their own names.
const server = "suite"

func run(ctx context.Context, url string) error {
	var s scenario
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			return err
		}
	}
	// Users are sent only to pages at https addresses.
	c := new(client)
	web := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.rt.Load().Handler().ServeHTTP(w, r) }))
	defer web.Close()
	c.browser = web.Client()
	var err error
	if c.browser.Jar, err = cookiejar.New(nil); err != nil {
		return err
	}
	oauth := &mcptools.OAuth{UnsafeAnyoneMayAuthorize: "the user is this program"}
	if s.ClientID != "" && s.Issuer != "" {
		oauth.ClientID, oauth.ClientSecret, oauth.Issuer = s.ClientID, toolserver.NewSecret(s.ClientSecret), s.Issuer
	}
	set, err := mcptools.Open(ctx, mcptools.Options{
		Servers: []mcptools.Server{{Name: server, Prefix: new(string), URL: url, OAuth: oauth}}, PublicURL: web.URL,
		AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}, // authorization servers of the suite
	})
	if err != nil {
		return err
	}
	ending, end := context.WithCancel(context.WithoutCancel(ctx))
	end() // Close and Stop do not wait for what is in progress
	defer set.Close(ending)
	rt, err := host.Start(ctx, host.Options{External: true, PublicURL: web.URL, Local: set.Local(), Pages: set.Pages(), Surface: c})
	if err != nil {
		return err
	}
	defer rt.Stop(ending)
	c.rt.Store(rt)
	set.SetCallbacks(rt.Handler())
	for _, problem := range set.Problems() {
		log.Print(problem)
	}
	return c.callAll(ctx, s)
}

// A client makes calls, and plays the user who is asked.
type client struct {
	rt      atomic.Pointer[host.Runtime]
	browser *http.Client
}

// callAll calls each tool once. A server that requires its user's token has only the tool sign_in at first.
func (c *client) callAll(ctx context.Context, s scenario) error {
	tools, _, err := c.rt.Load().ToolsOf(ctx, "first")
	if err != nil {
		return err
	}
	if len(tools) == 1 && tools[0].Name == "sign_in" {
		if err := c.call(ctx, "first", "sign_in", jsontext.Value("{}")); err != nil {
			return err
		}
		if tools, _, err = c.rt.Load().ToolsOf(ctx, "second"); err != nil {
			return err
		}
	}
	offered := map[string]host.Tool{}
	for _, t := range tools {
		offered[t.Name] = t
	}
	for _, one := range s.Calls {
		maps.DeleteFunc(one.Arguments, func(_ string, v any) bool { return v == nil }) // a null does not fit the schema
		arguments, err := json.Marshal(one.Arguments)
		if err != nil {
			return err
		}
		if err := c.call(ctx, "second", one.Name, arguments); err != nil {
			return err
		}
		delete(offered, one.Name)
	}
	for _, t := range tools {
		if _, left := offered[t.Name]; !left || t.Name == "sign_in" {
			continue
		}
		arguments, err := arguments(t, tools)
		if err != nil {
			return err
		}
		if err := c.call(ctx, "second", t.Name, arguments); err != nil {
			return err
		}
	}
	return nil
}

// call makes a call and prints its result.
func (c *client) call(ctx context.Context, thread, tool string, arguments jsontext.Value) error {
	key, err := c.rt.Load().Call(ctx, host.Request{GroupID: thread, Operation: tool, Arguments: arguments, UserID: "ada"})
	if err != nil {
		return err
	}
	r, err := c.rt.Load().Await(ctx, key)
	if err != nil {
		return err
	}
	fmt.Printf("%s %s: %s\n", tool, arguments, r.Result)
	return nil
}

// arguments generates arguments for a tool. An argument that is an object is the schema of the first tool, which the suite
// compares with what it has sent.
func arguments(t host.Tool, all []host.Tool) (jsontext.Value, error) {
	var schema struct {
		Properties map[string]struct {
			Type string `json:"type"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(t.InputSchema, &schema); err != nil {
		return nil, err
	}
	values := map[string]any{}
	for name, p := range schema.Properties {
		switch p.Type {
		case "number", "integer":
			values[name] = 5
		case "boolean":
			values[name] = true
		case "string":
			values[name] = "text"
		case "object":
			values[name] = json.RawMessage(all[0].InputSchema)
		}
	}
	return json.Marshal(values)
}

// OAuth visits the page that the user is sent to, and follows its link, from which the authorization server sends the browser
// back here.
func (c *client) OAuth(ctx context.Context, _ agentproto.CallKey, o *agentproto.OAuth) {
	go func() {
		ctx := context.WithoutCancel(ctx)
		page, err := c.get(ctx, o.AuthURL)
		if link := hyperlink.FindStringSubmatch(page); err == nil && link != nil {
			_, err = c.get(ctx, html.UnescapeString(link[1]))
		}
		if err != nil {
			log.Print(err)
		}
	}()
}

var hyperlink = regexp.MustCompile(`<a [^>]*href="([^"]*)"`)

// get returns the body of a page.
func (c *client) get(ctx context.Context, address string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	res, err := c.browser.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %d %s", res.Request.URL.Host, res.StatusCode, page)
	}
	return string(page), err
}

// Choice takes the first choice.
func (c *client) Choice(ctx context.Context, key agentproto.CallKey, choice *agentproto.UserChoice) {
	go func() {
		if err := c.rt.Load().Answer(context.WithoutCancel(ctx), key, choice.ResponseURL, 0); err != nil {
			log.Print(err)
		}
	}()
}

func (c *client) Withdraw(agentproto.CallKey, string)             {}
func (c *client) Progress(agentproto.CallKey, agentproto.State)   {}
func (c *client) View(agentproto.CallKey, *agentproto.ViewUpdate) {}
