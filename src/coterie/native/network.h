// The shape of a network and the memory that running it needs; shared by all instruction sets.
#pragma once
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace coterie {

using Dist = std::ptrdiff_t;  // between two floats; long has 32 bits on Windows

constexpr int LARGEST_KERNEL = 7, LARGEST_POOL = 15;  // as in stage.py

// One stage: a convolution or a linear layer, then perhaps batch normalisation, ReLU and max-pooling.
struct Stage {
    bool conv;
    int channels, height, width;  // of the input; a linear layer has channels = its number of inputs, 1×1
    int outputs;                  // channels out
    int kernel, padding;
    bool relu;
    int pool;                     // side of the pooling window; 1: none
    // a linear layer behind a convolution sees (height, width, channels), PyTorch (channels, height, width)
    int flat_channels, flat_positions;
    bool norm;             // whether its output is normalised by batch
    double momentum, eps;  // of that

    int out_height() const { return conv ? height + 2 * padding - kernel + 1 : 1; }
    int out_width() const { return conv ? width + 2 * padding - kernel + 1 : 1; }
    int pooled_height() const { return out_height() / pool; }
    int pooled_width() const { return out_width() / pool; }
    int inputs() const { return conv ? kernel * kernel * channels : channels; }  // rows of the weight matrix
};

enum Optimiser : int32_t { SGD = 0, ADAM = 1, ADAMW = 2 };  // as in __init__.py

struct Plan {
    int64_t steps;
    const int64_t* samples;      // of all batches, one after the other
    const int64_t* offsets;      // batches + 1; a meta-step has two batches
    const float* rates;          // per step
    float momentum, weight_decay, meta_step;
    int32_t meta;
    int32_t shared;  // whether the half-steps of a meta-step share the momentum
    int32_t anchors;
    const float* const* anchor;    // packed models
    const float* const* strength;  // packed, per parameter
    const float* correction;       // packed or null
    const float* mask;             // packed or null
    const float* l1;               // packed or null: strengths of a penalty on absolute values, per parameter
    int32_t snapshots;
    const int64_t* snapshot_steps;  // ascending
    float* snapshot;                // snapshots × packed size
    const float* label_offset;      // per class, added to the outputs in training; or null
    const uint8_t* learns;          // per stage: whether its weights learn, its biases; of a norm its scales, its shifts, and
                                    // whether it goes by batches, and counts them
    float clip;                     // the largest norm of a gradient; 0: any
    float smoothing;                // share of a label that goes to all labels alike
    int32_t optimiser;              // SGD, ADAM or ADAMW
    double beta1, beta2, eps;
    float sample_clip;              // the largest norm of a sample's gradient in private steps; 0: these are none
    float deviation, divisor;       // of the noise; and by what the noised sum is divided
    int32_t (*noise)(float*);       // fills a plain model with normal numbers; what is not 0 ends the training
};

struct Outcome {
    int64_t steps;     // done
    int64_t diverged;  // step at which the loss stopped being a number, or -1
    double loss;       // mean over steps
};

// What an instruction set provides.
struct Engine {
    virtual ~Engine() = default;
    virtual size_t size() const = 0;  // floats of a packed model
    virtual void pack(const float* plain, float* packed) const = 0;
    virtual void unpack(const float* packed, float* plain) const = 0;
    // images have their channels first, as in PyTorch, or last
    virtual void train(const float* x, bool channels_last, const int64_t* y, int64_t count, const Plan& plan, float* packed,
                       Outcome& outcome) = 0;
    virtual void logits(const float* x, bool channels_last, int64_t count, const float* packed, float* out) = 0;
};

Engine* make_generic(const std::vector<Stage>& stages);
Engine* make_avx2(const std::vector<Stage>& stages);
Engine* make_avx512(const std::vector<Stage>& stages);

}  // namespace coterie
