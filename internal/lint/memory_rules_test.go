package lint

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// importable lists packages in which an operator cannot store state, and those whose constructors
// file checks.
var importable = []string{"cmp", "context", "encoding/binary", "fmt", "math", "slices", "strings", "time", "internal/cow", "internal/digest", "internal/engine", "internal/engine/codec", "internal/engine/mark", "internal/engine/port", "internal/engine/state", "internal/keyed", "internal/timer"}

// file checks a file of operators.
func (m *memoryCheck) file(f *ast.File) {
	for _, spec := range f.Imports {
		if p := strings.TrimPrefix(strings.Trim(spec.Path.Value, `"`), module); !slices.Contains(importable, p) {
			m.errorf(spec, "an operator imports %s: what it remembers comes from a constructor of package state", p)
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Body != nil && m.ours(d) {
				m.function(d)
			}
		case *ast.GenDecl:
			if d.Tok == token.VAR {
				m.errorf(d, "a package variable beside operators")
			}
		}
	}
}

// ours reports whether a function belongs to operators. A method of a type that operators are
// made of, such as a location, does not.
func (m *memoryCheck) ours(fn *ast.FuncDecl) bool {
	recv := m.info.Defs[fn.Name].(*types.Func).Signature().Recv()
	if recv == nil {
		return true
	}
	return m.operators[m.fset.Position(named(recv.Type()).Pos()).Filename] != nil
}

// function checks an operator, or a function that an operator uses.
func (m *memoryCheck) function(fn *ast.FuncDecl) {
	m.calls(fn)
	made, declared := m.made(fn.Body), m.declared(fn.Body)
	var literals []*ast.FuncLit
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		if l, ok := n.(*ast.FuncLit); ok {
			literals = append(literals, l)
		}
		return true
	})
	m.literals += len(literals)
	inside := func(l ast.Node, v *types.Var) bool { return l.Pos() <= v.Pos() && v.Pos() < l.End() }
	for _, t := range m.targets(fn.Body) {
		captured := slices.ContainsFunc(literals, func(l *ast.FuncLit) bool {
			return l.Pos() <= t.at.Pos() && t.at.Pos() < l.End() && !inside(l, t.root)
		})
		local := inside(fn, t.root)
		if !captured && local && (t.whole || !t.through || inside(fn.Body, t.root)) { // it is being built, or does not outlive the call
			continue
		}
		if !m.allowed(m.functions, fn.Name.Name+" "+t.root.Name()) {
			m.written(t, made, declared, local)
		}
	}
	// A captured variable that was made here could be written anywhere.
	for _, l := range literals {
		ast.Inspect(l.Body, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			v, ok := m.info.Uses[id].(*types.Var)
			if ok && !v.IsField() && inside(fn.Body, v) && !inside(l, v) && m.fresh(fn.Body, v) {
				m.errorf(id, "%s was made by the operator and is used while the flow runs: make it with a constructor of package state", v.Name())
			}
			return true
		})
	}
}

// written checks a write that happens while the flow runs.
func (m *memoryCheck) written(t target, made map[*types.Var]bool, declared []target, local bool) {
	for _, d := range declared {
		if d.root == t.root && len(d.fields) <= len(t.fields) && slices.Equal(d.fields, t.fields[:len(d.fields)]) {
			return
		}
	}
	if local && made[t.root] && !t.whole {
		return
	}
	for i := len(t.fields) - 1; i >= 0; i-- {
		if name := m.field(t.fields[i]); m.allowed(m.fields, name) || m.registered(t.fields[i]) {
			return
		}
	}
	what := t.root.Name()
	for _, f := range t.fields {
		what += "." + f.Name()
	}
	m.errorf(t.at, "%s is written while the flow runs: make it with a constructor of package state, or declare it with Scratch or Holds", what)
}

// field returns the name of a field as Type.name.
func (m *memoryCheck) field(f *types.Var) string {
	for _, name := range f.Pkg().Scope().Names() {
		tn, ok := f.Pkg().Scope().Lookup(name).(*types.TypeName)
		if !ok {
			continue
		}
		if s, ok := tn.Type().Underlying().(*types.Struct); ok {
			for g := range s.Fields() {
				if g == f {
					return name + "." + f.Name()
				}
			}
		}
	}
	return f.Name()
}

// registered reports whether every function that makes such a struct either declares the field
// with Scratch or Holds, or sets it from a constructor.
func (m *memoryCheck) registered(f *types.Var) bool {
	owner, _, _ := strings.Cut(m.field(f), ".")
	tn, ok := f.Pkg().Scope().Lookup(owner).(*types.TypeName)
	if !ok {
		return false
	}
	places := 0
	for _, file := range m.operators {
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil || !m.makes(fn.Body, tn) {
				continue
			}
			places++
			declares := slices.ContainsFunc(m.declared(fn.Body), func(d target) bool {
				return slices.Contains(d.fields, f) || len(d.fields) == 0 && m.contains(d.root.Type(), tn)
			})
			if !declares && !m.constructed(fn.Body, f) {
				return false
			}
		}
	}
	return places > 0
}

// makes reports whether a function makes a value of a struct, by itself or within another one.
func (m *memoryCheck) makes(body ast.Node, tn *types.TypeName) (yes bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			yes = yes || m.contains(m.info.Types[n].Type, tn)
		case *ast.ValueSpec:
			yes = yes || n.Type != nil && m.contains(m.info.Types[n.Type].Type, tn)
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "new" {
				yes = yes || m.contains(m.info.Types[n.Args[0]].Type, tn)
			}
		}
		return true
	})
	return yes
}

// contains reports whether a type is the struct tn, or has a field that is.
func (m *memoryCheck) contains(t types.Type, tn *types.TypeName) bool {
	if named(t) == tn {
		return true
	}
	s, ok := t.Underlying().(*types.Struct)
	if !ok || named(t) == nil || !m.machinery(named(t).Pkg()) {
		return false
	}
	for f := range s.Fields() {
		if _, pointer := f.Type().(*types.Pointer); !pointer && m.contains(f.Type(), tn) {
			return true
		}
	}
	return false
}

// constructed reports whether a function sets a field to the result of a constructor.
func (m *memoryCheck) constructed(body ast.Node, f *types.Var) (yes bool) {
	is := func(id *ast.Ident, value ast.Expr) {
		v, ok := m.info.Uses[id].(*types.Var)
		if _, pointer := f.Type().(*types.Pointer); ok && v.Origin() == f && pointer && m.constructor(value) {
			yes = true
		}
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if id, ok := n.Key.(*ast.Ident); ok {
				is(id, n.Value)
			}
		case *ast.AssignStmt:
			for i, lhs := range n.Lhs {
				if sel, ok := lhs.(*ast.SelectorExpr); ok && len(n.Rhs) == len(n.Lhs) {
					is(sel.Sel, n.Rhs[i])
				}
			}
		}
		return true
	})
	return yes
}

// constructor reports whether an expression calls a function of package state, or one that makes
// the memory of a sequence.
func (m *memoryCheck) constructor(x ast.Expr) bool {
	call, ok := x.(*ast.CallExpr)
	if !ok {
		return false
	}
	fun := call.Fun
	if tv := m.info.Types[fun]; tv.Type != nil && named(tv.Type) != nil && named(tv.Type).Name() == "Sequence" {
		return true
	}
	switch f := fun.(type) {
	case *ast.IndexExpr:
		fun = f.X
	case *ast.IndexListExpr:
		fun = f.X
	}
	sel, ok := fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	f, ok := m.info.Uses[sel.Sel].(*types.Func)
	return ok && f.Pkg().Path() == statePackage && f.Signature().Recv() == nil
}

// made returns the variables of a function that are set only to results of constructors.
func (m *memoryCheck) made(body ast.Node) map[*types.Var]bool {
	made := make(map[*types.Var]bool)
	ast.Inspect(body, func(n ast.Node) bool {
		a, ok := n.(*ast.AssignStmt)
		if !ok {
			return true
		}
		for i, lhs := range a.Lhs {
			id, ok := lhs.(*ast.Ident)
			if !ok {
				continue
			}
			v := m.variable(id)
			if v == nil {
				continue
			}
			rhs := a.Rhs[0]
			if len(a.Rhs) == len(a.Lhs) {
				rhs = a.Rhs[i]
			}
			if _, before := made[v]; !before {
				made[v] = true
			}
			u, address := rhs.(*ast.UnaryExpr)
			made[v] = made[v] && (m.constructor(rhs) || address && u.Op == token.AND && !m.outside(u.X))
		}
		return true
	})
	return made
}

// fresh reports whether a variable is set to memory that is not from a constructor.
func (m *memoryCheck) fresh(body ast.Node, v *types.Var) (yes bool) {
	is := func(id *ast.Ident, x ast.Expr) {
		if m.variable(id) != v {
			return
		}
		switch x := x.(type) {
		case *ast.CallExpr:
			if f, ok := x.Fun.(*ast.Ident); ok && (f.Name == "new" || f.Name == "make") {
				yes = true
			}
		case *ast.CompositeLit:
			switch m.info.Types[x].Type.Underlying().(type) {
			case *types.Slice, *types.Map:
				yes = true
			}
		case *ast.UnaryExpr:
			if x.Op == token.AND {
				tn := named(m.info.Types[x.X].Type)
				if _, literal := x.X.(*ast.CompositeLit); literal {
					yes = yes || tn == nil || !m.machinery(tn.Pkg())
				} else {
					yes = yes || !m.placed(x.X) && m.outside(x.X)
				}
			}
		}
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, lhs := range n.Lhs {
				if id, ok := lhs.(*ast.Ident); ok && len(n.Lhs) == len(n.Rhs) {
					is(id, n.Rhs[i])
				}
			}
		case *ast.ValueSpec:
			for i, id := range n.Names {
				if i < len(n.Values) {
					is(id, n.Values[i])
				}
			}
		}
		return true
	})
	return yes
}

// outside reports whether an address is not that of a field of the machinery that may be written.
func (m *memoryCheck) outside(x ast.Expr) bool {
	t, ok := m.target(x)
	return !ok || len(t.fields) == 0 || !m.allowed(m.fields, m.field(t.fields[len(t.fields)-1]))
}

func (m *memoryCheck) variable(id *ast.Ident) *types.Var {
	if v, ok := m.info.Defs[id].(*types.Var); ok {
		return v
	}
	v, _ := m.info.Uses[id].(*types.Var)
	return v
}

// forbidden lists functions that make memory or determine how long it lasts.
var forbidden = map[string]string{
	"engine.Lasting": "", "engine.OfConstants": "", "engine.NewUnsavedValueNode": "",
	"keyed.NewTable": "", "keyed.NewSequence": "", "keyed.NewRecent": "", "cow.NewMap": "", "timer.NewFIFO": "", "timer.NewWheel": "",
}

// calls checks the calls and types in a function.
func (m *memoryCheck) calls(fn *ast.FuncDecl) {
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.MapType:
			m.errorf(n, "%s has a map: what it remembers comes from a constructor of package state", fn.Name.Name)
		case *ast.ChanType:
			m.errorf(n, "%s has a channel: what it remembers comes from a constructor of package state", fn.Name.Name)
		case *ast.Ident:
			f, ok := m.info.Uses[n].(*types.Func)
			if !ok {
				return true
			}
			name := f.Name()
			if f.Pkg() != nil && f.Pkg() != m.pkg {
				name = f.Pkg().Name() + "." + name
			}
			if _, ok := forbidden[name]; ok && f.Signature().Recv() == nil && !m.allowed(m.functions, fn.Name.Name+" "+name) {
				m.errorf(n, "%s calls %s: what it remembers comes from a constructor of package state", fn.Name.Name, name)
			}
		}
		return true
	})
}
