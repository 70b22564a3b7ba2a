package lint

import (
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// TestPublicPagesFound checks that [TestPublicPages] finds the mistakes in a page, and nothing else.
func TestPublicPagesFound(t *testing.T) {
	const prog = `// Package p begins with a colon:
package p

// Param is a function.
func Param(h hidden) {}

// Result is a function.
func Result() []map[string]*hidden { return nil }

// Bound is a function.
func Bound[T constraint]() {}

// Nameless is a function.
func Nameless[T interface{ comparable }]() {}

// Union is a function.
func Union[T int | string]() {}

// Field is a type.
type Field struct{ X hidden }

// Embedded is a type.
type Embedded struct{ box[int] }

// Method is a type.
type Method struct{}

// Use is a method.
func (Method) Use(hidden) {}

// Interface is a type.
type Interface interface{ Do(hidden) }

// Defined is a type.
type Defined hidden

// Variable is a variable.
var Variable hidden

var Bare int

// Something is a variable under another name.
var Named int

// Colon returns these:
func Colon() {}

// Unlinked is like [other.Thing].
func Unlinked() {}

// Blocked is like this:
//
//	a [Field] in a block
func Blocked() {}

type hidden struct{}
type box[T any] struct{}
type constraint interface{ int }

// FineType is a type.
type FineType struct {
	hidden
	x hidden
}

// FineInterface is a type.
type FineInterface interface{ do(hidden) }

// FineLink is like [FineType], and (see [FineInterface]) like no other.
func FineLink[hidden any](h hidden) FineType { return FineType{} }

// Authorize is what Synopsis takes for a name.
func Authorize() {}

// The fine ones.
const (
	FineA = 1
	FineB = 2 // is two
)

func fine(hidden) {}
`
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "p.go", prog, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, wrong := range pageOf(t, "p", []source{{File: f, fset: fset, path: "p.go"}}).wrong() {
		name, _, _ := strings.Cut(wrong, ":")
		found = append(found, name)
	}
	slices.Sort(found)
	want := []string{
		"Bare", "Blocked", "Blocked", "Bound", "Colon", "Defined", "Embedded", "Field", "Interface", "Method.Use", "Named", "Nameless",
		"Param", "Result", "Union", "Unlinked", "Variable", "the package comment",
	}
	if !slices.Equal(found, want) {
		t.Errorf("got  %q\nwant %q", found, want)
	}
}
