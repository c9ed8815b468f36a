#dram = #ttnn.buffer_type<dram>
#loc = loc(unknown)
#ttnn_layout = #ttnn.ttnn_layout<(d0, d1, d2, d3, d4) -> (d0 * 184320 + d1 * 240 + d2 * 60 + d3, d4), <1x1>, memref<184320x106xbf16, #dram>, <interleaved>>
#ttnn_layout14 = #ttnn.ttnn_layout<(d0, d1, d2, d3, d4) -> (d0 * 196608 + d1 * 256 + d2 * 64 + d3, d4), <1x1>, memref<6144x4x!ttcore.tile<32x32, bf16>, #dram>, <interleaved>>
#ttnn_layout15 = #ttnn.ttnn_layout<(d0, d1, d2, d3, d4) -> (d0 * 49152 + d1 * 49152 + d2 * 64 + d3, d4), <1x1>, memref<6144x4x!ttcore.tile<32x32, bf16>, #dram>, <interleaved>>
#ttnn_layout16 = #ttnn.ttnn_layout<
    (d0, d1) -> (d0, d1),
    <1x1>,
    memref<1x152640x!ttcore.tile<32x32, bf16>, #dram>,
    <interleaved>
>
#ttnn_layout17 = #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<4x4884480xbf16, #dram>, <interleaved>>
#ttnn_layout18 = #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<1x6xui32, #dram>, <interleaved>>
#ttnn_layout19 = #ttnn.ttnn_layout<(d0, d1, d2) -> (d0 * 6 + d1, d2), <1x1>, memref<6x4884480xbf16, #dram>, <interleaved>>
#ttnn_layout21 = #ttnn.ttnn_layout<(d0, d1, d2, d3, d4) -> (d0 * 46080 + d1 * 46080 + d2 * 60 + d3, d4), <1x1>, memref<276480x106xbf16, #dram>, <interleaved>>
#ttnn_layout22 = #ttnn.ttnn_layout<(d0, d1, d2, d3, d4) -> (d0 * 276480 + d1 * 360 + d2 * 60 + d3, d4), <1x1>, memref<276480x106xbf16, #dram>, <interleaved>>
#ttnn_layout23 = #ttnn.ttnn_layout<(d0, d1, d2, d3, d4) -> (d0 * 38160 + d1 * 6360 + d2 * 106 + d3, d4), <1x1>, memref<38160x768xbf16, #dram>, <interleaved>>
#ttnn_layout20 = #ttnn.ttnn_layout<(d0, d1, d2, d3, d4) -> (d0 * 25440 + d1 * 6360 + d2 * 106 + d3, d4), <1x1>, memref<25440x768xbf16, #dram>, <interleaved>>
module @SyncTensorsGraph.1 attributes {ttcore.meshes = #ttcore.meshes<[<"mesh" = 1x1>]>} {
  func.func @main_const_eval_0() -> tensor<1x6xui32, #ttnn_layout18> {
    %0 = "ttnn.get_device"() <{mesh_offset = #ttnn<mesh_offset 0x0>, mesh_shape = #ttnn<mesh_shape 1x1>}> : () -> !ttnn.device loc(#loc)
    %1 = "ttnn.constant"(%0) <{dtype = #ttcore.supportedDataTypes<u32>, layout = #ttnn.layout<row_major>, value = dense<[[0, 0, 0, 1, 2, 3]]> : tensor<1x6xui32>}> : (!ttnn.device) -> tensor<1x6xui32, #ttnn_layout18> loc(#loc2)
    return %1 : tensor<1x6xui32, #ttnn_layout18>
  }
  func.func @main(%arg0: tensor<1x6xui32, #ttnn_layout18>, %arg1: tensor<768x768x3x3x3xbf16>, %arg2: tensor<1x768x4x60x106xbf16, #ttnn_layout>) -> tensor<1x768x4x60x106xbf16, #ttnn_layout> {
    %5 = "ttnn.get_device"() <{mesh_offset = #ttnn<mesh_offset 0x0>, mesh_shape = #ttnn<mesh_shape 1x1>}> : () -> !ttnn.device loc(#loc)
    %6 = "ttnn.to_layout"(%arg2) <{layout = #ttnn.layout<tile>}> : (tensor<1x768x4x60x106xbf16, #ttnn_layout>) -> tensor<1x768x4x60x106xbf16, #ttnn_layout14> loc(#loc3)
    %7 = "ttnn.permute"(%6) <{memory_config = #ttnn.memory_config<#dram, <interleaved>>, pad_value = 0.000000e+00 : f32, permutation = array<i64: 2, 0, 1, 3, 4>}> : (tensor<1x768x4x60x106xbf16, #ttnn_layout14>) -> tensor<4x1x768x60x106xbf16, #ttnn_layout15> loc(#loc3)
    "ttnn.deallocate"(%6) <{force = false}> : (tensor<1x768x4x60x106xbf16, #ttnn_layout14>) -> () loc(#loc3)
    %8 = "ttnn.reshape"(%7) <{shape = [4 : i32, 4884480 : i32]}>
         : (tensor<4x1x768x60x106xbf16, #ttnn_layout15>)
        -> tensor<4x4884480xbf16, #ttnn_layout16> loc("aten__index_reshapeInput")
    %9 = "ttnn.to_layout"(%8) <{layout = #ttnn.layout<row_major>}> : (tensor<4x4884480xbf16, #ttnn_layout16>) -> tensor<4x4884480xbf16, #ttnn_layout17> loc(#loc4)
    %10 = "ttnn.embedding"(%arg0, %9) : (tensor<1x6xui32, #ttnn_layout18>, tensor<4x4884480xbf16, #ttnn_layout17>) -> tensor<1x6x4884480xbf16, #ttnn_layout19> loc(#loc4)
    %11 = "ttnn.reshape"(%10) <{shape = [6 : i32, 1 : i32, 768 : i32, 60 : i32, 106 : i32]}> : (tensor<1x6x4884480xbf16, #ttnn_layout19>) -> tensor<6x1x768x60x106xbf16, #ttnn_layout21> loc(#loc4)
    %12 = "ttnn.permute"(%11) <{permutation = array<i64: 1, 2, 0, 3, 4>}> : (tensor<6x1x768x60x106xbf16, #ttnn_layout21>) -> tensor<1x768x6x60x106xbf16, #ttnn_layout22> loc(#loc4)
    %13 = "ttnn.permute"(%12) <{permutation = array<i64: 0, 2, 3, 4, 1>}> : (tensor<1x768x6x60x106xbf16, #ttnn_layout22>) -> tensor<1x6x60x106x768xbf16, #ttnn_layout23> loc(#loc5)
    %24 = "ttnn.conv3d"(%13, %arg1, %5) <{batch_size = 1 : i32, groups = 1 : i32, in_channels = 768 : i32, input_depth = 6 : i32, input_height = 60 : i32, input_width = 106 : i32, kernel_size = array<i32: 3, 3, 3>, out_channels = 768 : i32, padding = array<i32: 0, 1, 1>, padding_mode = "zeros", stride = array<i32: 1, 1, 1>}> : (tensor<1x6x60x106x768xbf16, #ttnn_layout23>, tensor<768x768x3x3x3xbf16>, !ttnn.device) -> tensor<1x4x60x106x768xbf16, #ttnn_layout20> loc(#loc5)
    %25 = "ttnn.to_layout"(%24) <{layout = #ttnn.layout<tile>}> : (tensor<1x4x60x106x768xbf16, #ttnn_layout20>) -> tensor<1x4x60x106x768xbf16> loc(#loc5)
    return %25 : tensor<1x4x60x106x768xbf16>
  }
}
#loc1 = loc("model.py":116:12)
#loc2 = loc(#loc1)
#loc3 = loc("5|.../aten__index"(#loc1))
#loc4 = loc("5|.../aten__index_workaround"(#loc3))
#loc5 = loc("7|.../conv3d"(#loc1))
