// Metal prelude. The kernels are Metal Shading Language, so little is missing.

#define TQ_FN inline
