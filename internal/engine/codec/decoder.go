package codec

import "encoding/binary"

// A Decoder reads what was appended. After an error everything that it reads is zero.
type Decoder struct {
	Data []byte
	Err  error
}

// Fail records that the data is damaged, unless there was an earlier error.
func (d *Decoder) Fail() {
	if d.Err == nil {
		d.Err = ErrRecord
	}
	d.Data = nil
}

// Byte reads a byte.
func (d *Decoder) Byte() byte {
	if len(d.Data) == 0 {
		d.Fail()
		return 0
	}
	b := d.Data[0]
	d.Data = d.Data[1:]
	return b
}

// Uint reads an unsigned varint.
func (d *Decoder) Uint() uint64 {
	x, n := binary.Uvarint(d.Data)
	if n <= 0 {
		d.Fail()
		return 0
	}
	d.Data = d.Data[n:]
	return x
}

// Int reads a signed varint.
func (d *Decoder) Int() int64 {
	x, n := binary.Varint(d.Data)
	if n <= 0 {
		d.Fail()
		return 0
	}
	d.Data = d.Data[n:]
	return x
}

// Bytes reads what AppendBytes appended. It shares memory with the data.
func (d *Decoder) Bytes() []byte {
	n := d.Uint()
	if n > uint64(len(d.Data)) {
		d.Fail()
		return nil
	}
	b := d.Data[:n:n]
	d.Data = d.Data[n:]
	return b
}

// Count returns the number of items that follow. It checks that the data can contain that many, at one byte or more each, so that
// a damaged number does not allocate all memory.
func (d *Decoder) Count() int {
	n := d.Uint()
	if n > uint64(len(d.Data)) {
		d.Fail()
		return 0
	}
	return int(n)
}
