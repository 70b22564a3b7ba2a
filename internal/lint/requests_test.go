package lint

import (
	"go/ast"
	"go/token"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// toldOtherwise lists requests that the usage of serve describes along with another request, and
// the words that it uses.
var toldOtherwise = map[string]string{
	"DELETE /calls/{thread}/{id}/events": "DELETE ends it",
}

// TestRequests checks that the usage of serve contains each request of the runtime's API, and that
// each scope is of an existing request: if a request were renamed, its scope would be lost, and
// all users could make it.
func TestRequests(t *testing.T) {
	handled, scoped, usage := map[string]bool{}, map[string]bool{}, ""
	for _, f := range sources(t) {
		if f.dir != "cmd/millrace" || f.test {
			continue
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if s, ok := n.Fun.(*ast.SelectorExpr); ok && strings.HasPrefix(f.name, "api") && (s.Sel.Name == "Handle" || s.Sel.Name == "HandleFunc") && len(n.Args) == 2 {
					if pattern, ok := textOf(n.Args[0]); ok && pattern != "/" {
						handled[pattern] = true
					}
				}
			case *ast.ValueSpec:
				if len(n.Values) != 1 {
					return true
				}
				switch n.Names[0].Name {
				case "serveUsage":
					usage, _ = textOf(n.Values[0])
				case "userRoutes":
					for _, e := range n.Values[0].(*ast.CompositeLit).Elts {
						if pattern, ok := textOf(e.(*ast.KeyValueExpr).Key); ok {
							scoped[pattern] = true
						}
					}
				}
			}
			return true
		})
	}
	if len(handled) < 25 || len(scoped) < 20 || usage == "" {
		t.Fatalf("found %d requests, %d scopes and a usage of %d bytes", len(handled), len(scoped), len(usage))
	}
	for pattern := range scoped {
		if !handled[pattern] {
			t.Errorf("cmd/millrace/routes.go has a scope for %s, which nothing handles", pattern)
		}
	}
	for pattern := range handled {
		if !tells(usage, pattern) {
			t.Errorf("the usage of millrace serve does not have %s", pattern)
		}
	}
}

// textOf returns the value of a string literal.
func textOf(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

// tells reports whether a usage contains a pattern, with the variable parts of the path in
// capitals.
func tells(usage, pattern string) bool {
	if words := toldOtherwise[pattern]; words != "" {
		return strings.Contains(usage, words)
	}
	method, rest, ok := strings.Cut(pattern, " ")
	if !ok {
		method, rest = `[A-Z]+`, strings.TrimSuffix(pattern, "/")
	}
	rest = regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(regexp.QuoteMeta(rest), `[A-Z]+`)
	return regexp.MustCompile(`\b` + method + ` +` + rest + `(\s|;|$)`).MatchString(usage)
}

// TestTells checks that tells finds the pattern of a request, and no other.
func TestTells(t *testing.T) {
	const usage = "  POST   /calls            makes one\n  GET    /calls/THREAD/ID  its result; GET /threads has\n  GET    /quarantine       what"
	for pattern, want := range map[string]bool{
		"POST /calls": true, "GET /calls": false, "GET /calls/{thread}/{id}": true, "GET /calls/{thread}": false, "GET /threads": true,
		"/quarantine": true, "/quarantine/": true, "/stats": false, "DELETE /calls/{thread}/{id}": false,
	} {
		if got := tells(usage, pattern); got != want {
			t.Errorf("%s: %v, want %v", pattern, got, want)
		}
	}
}

// TestControl checks that doc/control.md contains each request, member and part of the control
// interface: others implement the interface from this page.
func TestControl(t *testing.T) {
	text := documents(t)["doc/control.md"]
	var requests, words []string
	for _, f := range sources(t) {
		switch f.path {
		case "cmd/millrace/control.go":
			ast.Inspect(f.File, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && len(call.Args) == 2 {
					if id, ok := call.Fun.(*ast.Ident); ok && id.Name == "handle" {
						pattern, _ := textOf(call.Args[0])
						requests = append(requests, pattern)
					}
				}
				return true
			})
		case "agentproto/conform/control.go":
			ast.Inspect(f.File, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Field:
					if n.Tag != nil {
						tag, _ := textOf(n.Tag)
						if name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ","); name != "" {
							words = append(words, name)
						}
					}
				case *ast.ValueSpec:
					if len(n.Values) == 1 && strings.HasPrefix(n.Names[0].Name, "Part") {
						part, _ := textOf(n.Values[0])
						words = append(words, part)
					}
				}
				return true
			})
		}
	}
	if len(requests) < 10 || len(words) < 50 {
		t.Fatalf("found %d requests and %d words", len(requests), len(words))
	}
	for _, pattern := range requests {
		if !regexp.MustCompile("`" + regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(regexp.QuoteMeta(pattern), `\{\w+\}`) + "`").MatchString(text) {
			t.Errorf("doc/control.md does not have %s", pattern)
		}
	}
	for _, w := range words {
		if !regexp.MustCompile("[`\"]" + w + "[`\"]").MatchString(text) {
			t.Errorf("doc/control.md does not have %s", w)
		}
	}
}
