// Package deep copies values with everything that can be changed through them, so that a
// function that changes its arguments in place can be tried without harm.
package deep

import (
	"fmt"
	"reflect"
	"unsafe"
)

// maxDepth bounds how deep values are nested. It is that of package digest, which does not
// see what lies deeper.
const maxDepth = 24

// Copier returns a function that copies a value: slices, maps, pointers and interfaces are
// copied with what they refer to, also in fields that are not exported. Values without
// references, and types whose values nobody can change or whose pointers are their
// identity, are returned as they are: strings, times, types, errors in interfaces, and what
// package unique makes.
//
// It returns an error for a value that holds a channel, a function or an unsafe pointer that
// is not nil, that refers to itself, or that is nested deeper than 24 levels. What two
// references share is shared by their copies, but for the arrays of slices.
//
// A copy costs time and memory linear in the value. The functions can be called by several
// goroutines, as long as nobody changes the value.
func Copier[T any]() func(T) (T, error) {
	if t := reflect.TypeFor[T](); !refers(t) {
		return func(x T) (T, error) { return x, nil }
	}
	return func(x T) (T, error) {
		c := copying{done: make(map[pointer]reflect.Value)}
		to := x
		if err := c.detach(reflect.ValueOf(&to).Elem(), 0); err != nil {
			return *new(T), err
		}
		return to, nil
	}
}

// fixed are types whose values cannot be changed by those who have them.
func fixed(t reflect.Type) bool {
	return t.PkgPath() == "time" && t.Name() == "Time" || t.PkgPath() == "unique"
}

// refers reports whether a value of the type may have to be copied.
func refers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Slice, reflect.Map, reflect.Pointer, reflect.Interface, reflect.Chan, reflect.Func, reflect.UnsafePointer:
		return true
	case reflect.Array:
		return t.Len() > 0 && refers(t.Elem())
	case reflect.Struct:
		if fixed(t) {
			return false
		}
		for i := range t.NumField() {
			if refers(t.Field(i).Type) {
				return true
			}
		}
	}
	return false
}

// A pointer is a reference and what it points to: one address can be that of a struct and of
// its first field.
type pointer struct {
	at unsafe.Pointer
	t  reflect.Type
}

// copying is one copy on its way.
type copying struct {
	done map[pointer]reflect.Value // the copy; of what is not finished yet, the zero Value
}

// detach replaces the references of v, which can be addressed and is the copy's already, by
// references to copies.
func (c *copying) detach(v reflect.Value, depth int) error {
	t := v.Type()
	if !refers(t) {
		return nil
	}
	if depth > maxDepth {
		return fmt.Errorf("it is nested deeper than %d levels", maxDepth)
	}
	if !v.CanSet() { // a field that is not exported
		v = reflect.NewAt(t, v.Addr().UnsafePointer()).Elem()
	}
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.UnsafePointer:
		if v.IsNil() {
			return nil
		}
		return fmt.Errorf("it has a %v", t)
	case reflect.Struct:
		for i := range v.NumField() {
			if err := c.detach(v.Field(i), depth+1); err != nil {
				return err
			}
		}
	case reflect.Array:
		return c.elements(v, depth)
	case reflect.Slice:
		if v.IsNil() {
			return nil
		}
		return c.slice(v, depth)
	case reflect.Map:
		return c.entries(v, depth)
	case reflect.Pointer:
		return c.pointee(v, depth)
	case reflect.Interface:
		return c.dynamic(v, depth)
	}
	return nil
}

// elements detaches those of an array or slice.
func (c *copying) elements(v reflect.Value, depth int) error {
	if !refers(v.Type().Elem()) {
		return nil
	}
	for i := range v.Len() {
		if err := c.detach(v.Index(i), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// slice replaces a slice. What two slices share is not shared by their copies, since they may
// be of other lengths.
func (c *copying) slice(v reflect.Value, depth int) error {
	p := pointer{v.UnsafePointer(), v.Type()}
	if v.Len() > 0 && refers(v.Type().Elem()) {
		if _, inside := c.done[p]; inside {
			return fmt.Errorf("it refers to itself by a %v", v.Type())
		}
		c.done[p] = reflect.Value{}
		defer delete(c.done, p)
	}
	to := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
	reflect.Copy(to, v)
	v.Set(to)
	return c.elements(v, depth)
}

// entries replaces a map.
func (c *copying) entries(v reflect.Value, depth int) error {
	if v.IsNil() {
		return nil
	}
	p := pointer{v.UnsafePointer(), v.Type()}
	if was, err := c.seen(p, v); was || err != nil {
		return err
	}
	to := reflect.MakeMapWithSize(v.Type(), v.Len())
	err := c.shared(p, to, func() error {
		for it := v.MapRange(); it.Next(); {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			key.Set(it.Key())
			value.Set(it.Value())
			for _, half := range []reflect.Value{key, value} {
				if err := c.detach(half, depth+1); err != nil {
					return err
				}
			}
			to.SetMapIndex(key, value)
		}
		return nil
	})
	v.Set(to)
	return err
}

// pointee replaces a pointer.
func (c *copying) pointee(v reflect.Value, depth int) error {
	if v.IsNil() {
		return nil
	}
	p := pointer{v.UnsafePointer(), v.Type()}
	if was, err := c.seen(p, v); was || err != nil {
		return err
	}
	to := reflect.New(v.Type().Elem())
	to.Elem().Set(v.Elem())
	err := c.shared(p, to, func() error { return c.detach(to.Elem(), depth+1) })
	v.Set(to.Convert(v.Type()))
	return err
}

// dynamic replaces what an interface holds.
func (c *copying) dynamic(v reflect.Value, depth int) error {
	if v.IsNil() || !refers(v.Elem().Type()) {
		return nil
	}
	switch v.Elem().Interface().(type) {
	case error, reflect.Type: // which are known by their pointers
		return nil
	}
	to := reflect.New(v.Elem().Type()).Elem()
	to.Set(v.Elem())
	err := c.detach(to, depth+1)
	v.Set(to)
	return err
}

// seen sets v to the copy of what it refers to, if there is one.
func (c *copying) seen(p pointer, v reflect.Value) (was bool, err error) {
	to, was := c.done[p]
	if was && !to.IsValid() {
		return true, fmt.Errorf("it refers to itself by a %v", v.Type())
	}
	if was {
		v.Set(to.Convert(v.Type()))
	}
	return was, nil
}

// shared runs f, which copies what p refers to, and keeps the copy.
func (c *copying) shared(p pointer, to reflect.Value, f func() error) error {
	c.done[p] = reflect.Value{}
	err := f()
	c.done[p] = to
	return err
}
