package sim

import (
	"io/fs"
	"os"
	"reflect"
	"syscall"
	"unsafe"
)

// template is a description of some file of the system, to be copied.
var template = func() reflect.Value {
	info, err := os.Stat(os.DevNull)
	if err != nil {
		panic(err) // there is no system without one
	}
	return reflect.ValueOf(info).Elem()
}()

// describe makes the description of a file in memory. Whether two descriptions mean the same file is asked of
// [os.SameFile], which believes nobody but package os; so this is one of its own values, with the number and the size
// of the file in memory.
func describe(ino uint64, size int) fs.FileInfo {
	info := reflect.New(template.Type())
	info.Elem().Set(template)
	described := info.Interface().(fs.FileInfo)
	if stat, ok := described.Sys().(*syscall.Stat_t); ok {
		stat.Ino = ino // Sys points into the value itself
	}
	if field := info.Elem().FieldByName("size"); field.IsValid() {
		*(*int64)(unsafe.Pointer(field.UnsafeAddr())) = int64(size)
	}
	return described
}
