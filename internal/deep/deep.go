// Package deep copies values with everything that can be changed through them, so that a
// function that changes its arguments in place can be tried without harm.
package deep

import (
	"fmt"
	"reflect"
	"unsafe"
)

// maxDepth limits the nesting of values. It is the limit of package digest, which ignores
// what is nested deeper.
const maxDepth = 24

// Copier returns a function that copies a value: slices, maps, pointers and interfaces are
// copied with what they refer to, also in unexported fields. Values without references are
// returned as they are, and so are those that cannot be changed or are identified by their
// pointers: strings, times, types, errors in interfaces, and values of package unique.
//
// The function returns an error for a value that holds a channel, a function or an unsafe
// pointer that is not nil, that refers to itself, or that is nested deeper than 24 levels.
// What two references share is also shared by their copies, except the arrays of slices.
//
// A copy takes time and memory linear in the size of the value. The functions may be called
// by several goroutines as long as the value is not changed.
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

// fixed reports whether values of the type cannot be changed.
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

// A pointer is a reference with its type: a struct and its first field may have the same
// address.
type pointer struct {
	at unsafe.Pointer
	t  reflect.Type
}

// copying is the state of one copy.
type copying struct {
	done map[pointer]reflect.Value // the copies; the zero Value for one that is not finished
}

// detach replaces the references in v by references to copies. V must be addressable and
// already belong to the copy.
func (c *copying) detach(v reflect.Value, depth int) error {
	t := v.Type()
	if !refers(t) {
		return nil
	}
	if depth > maxDepth {
		return fmt.Errorf("it is nested deeper than %d levels", maxDepth)
	}
	if !v.CanSet() { // an unexported field
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

// elements detaches the elements of an array or slice.
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

// slice replaces a slice by a copy. Slices that share an array do not share it in the copy,
// since they may have different lengths.
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

// entries replaces a map by a copy.
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

// pointee replaces a pointer by one to a copy.
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

// dynamic replaces the value in an interface by a copy.
func (c *copying) dynamic(v reflect.Value, depth int) error {
	if v.IsNil() || !refers(v.Elem().Type()) {
		return nil
	}
	switch v.Elem().Interface().(type) {
	case error, reflect.Type: // identified by their pointers
		return nil
	}
	to := reflect.New(v.Elem().Type()).Elem()
	to.Set(v.Elem())
	err := c.detach(to, depth+1)
	v.Set(to)
	return err
}

// seen sets v to the existing copy of what it refers to, if there is one.
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

// shared runs f, which copies what p refers to, and records the copy.
func (c *copying) shared(p pointer, to reflect.Value, f func() error) error {
	c.done[p] = reflect.Value{}
	err := f()
	c.done[p] = to
	return err
}
